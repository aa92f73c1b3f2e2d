/**
 * Tables have columns if all of them fit. Otherwise each row is a name with its facts below it, so that no column is out
 * of sight. On a phone, each fact has its own line.
 */
export const tableStyle = `
.scroll { container-type: inline-size; overflow-x: auto; border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
table { width: 100%; border-collapse: collapse; }
th, td { padding: var(--space-2) var(--space-4); text-align: start; vertical-align: middle; font-weight: 400; }
thead th { color: var(--ink-soft); font-size: var(--size-1); white-space: nowrap; }
thead a { color: inherit; text-decoration: none; }
thead a:hover { color: var(--ink); text-decoration: underline; }
thead th[aria-sort='ascending'] a::after { content: ' \\2191'; }
thead th[aria-sort='descending'] a::after { content: ' \\2193'; }
thead th.cell-actions { text-align: end; }
tbody tr { border-top: 1px solid var(--line); }
tbody tr:hover { background: var(--ground); }
tbody th { min-width: 160px; max-width: 420px; }
tbody tr[id^='row-caller-'] th { min-width: 200px; }
tbody th a, tbody th > span:first-child { font-weight: 600; }
tbody th .note { color: var(--ink-soft); font-size: var(--size-1); }
tbody th:has(> .sentence) { max-width: none; overflow-wrap: break-word; }
.sentence strong, .sentence a { font-weight: 600; }
.sentence a { overflow-wrap: anywhere; }
.sentence a.value { color: inherit; text-decoration-color: var(--edge); text-underline-offset: 3px; }
.sentence a.value:hover { text-decoration-color: currentColor; }
.sentence .note { color: var(--ink-soft); font-size: var(--size-1); }
tbody th > details { color: var(--ink-soft); font-size: var(--size-1); }
tbody th > details .facts { padding: var(--space-2) 0; }
tbody th > details dd { overflow-wrap: anywhere; }
tbody td { color: var(--ink-soft); }
td.cell-time, td.cell-id, td.cell-hint { white-space: nowrap; }
td.cell-address code { overflow-wrap: anywhere; }
/* Its name starts beside the box and stays there where it breaks. */
tbody th:has(> .check) { padding-inline-start: calc(var(--space-4) + 30px); }
tbody th > .check { float: inline-start; margin-block: 2px 0; margin-inline: -30px 0; }
tbody th > .check + span { font-weight: 600; }
td.cell-text > span { display: inline-block; min-width: 9ch; overflow-wrap: break-word; }
td.cell-text > .breaks { overflow-wrap: anywhere; }
@media (min-width: 701px) { td.cell-text > .word { white-space: nowrap; } }
@media (min-width: 701px) { tbody th.variable { width: 1%; white-space: nowrap; } }
.variable code { font-size: var(--size-1); }
td.cell-actions { text-align: end; }
@media (min-width: 1100px) { td.cell-actions { white-space: nowrap; } }
td.cell-actions a { margin: 2px 0; }
tr.over th a, tr.over th > span:first-child { color: var(--ink-soft); font-weight: 400; text-decoration-line: line-through; }
@media (max-width: 700px) {
  .scroll:has(td[data-label]) { overflow: visible; }
  .scroll table, .scroll tbody, .scroll tr, .scroll th, .scroll td { display: block; }
  .scroll thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  .scroll tbody tr { padding: var(--space-3) var(--space-4); }
  .scroll tbody tr:first-child { border-top: 0; }
  .scroll tbody th, .scroll tbody td { max-width: none; padding: 2px 0; text-align: start; white-space: normal; }
  .scroll tbody th:has(> .check) { padding-inline-start: 30px; }
  .scroll tbody td[data-label]:not(.cell-actions)::before { content: attr(data-label) ': '; font-size: var(--size-1); }
  .scroll td.cell-text > span { display: inline; }
  .scroll td.cell-actions { display: flex; flex-wrap: wrap; gap: var(--space-2); padding-top: var(--space-2); }
  .scroll td.none, .scroll td.cell-actions:not(:has(a)) { display: none; }
}
${rowsInside('max-width: 730px', 'th:nth-child(5)')}
${rowsInside('max-width: 820px', 'th:nth-child(7)')}
${rowsInside('max-width: 1020px', 'th:nth-child(6)):has(.cell-id')}
${rowsInside('max-width: 1020px', 'th:nth-child(8)')}
${rowsInside('max-width: 940px', 'th:nth-child(5)):has(.cell-address')}
`;

/** Shows a table that is too wide for its container as rows of facts, below the links to sort them; not on a phone. */
function rowsInside(box: string, column: string): string {
  const table = `.scroll table:has(${column})`;
  return `@container (${box}) { @media (min-width: 701px) {
  ${table}, ${table} tbody, ${table} th, ${table} td { display: block; }
  ${table} thead:not(:has(a)) { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  ${table} thead { display: block; border-bottom: 1px solid var(--line); }
  ${table} thead tr { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); padding: var(--space-2) var(--space-4); color: var(--ink-soft); font-size: var(--size-1); }
  ${table} thead tr::before { content: 'Sort by'; }
  ${table} thead th { padding: 0; }
  ${table} thead th:not(:has(a)) { display: none; }
  ${table} tbody tr { display: flex; flex-wrap: wrap; gap: 2px var(--space-5); align-items: center; padding: var(--space-3) var(--space-4); }
  ${table} tbody tr:first-child { border-top: 0; }
  ${table} tbody th { flex: 1 0 100%; max-width: none; padding: 0; }
  ${table} tbody th:has(> .check) { padding-inline-start: 30px; }
  ${table} tbody td { padding: 0; text-align: start; }
  ${table} td[data-label]:not(.cell-actions)::before { content: attr(data-label) ': '; font-size: var(--size-1); }
  ${table} td.cell-text > span { display: inline; }
  ${table} td.none, ${table} td.cell-actions:not(:has(a)) { display: none; }
} }`;
}

/** The styles of plots. */
export const plotStyle = `
:root { --bar-1: var(--accent); --bar-2: oklch(60% 0.09 195); --bar-3: oklch(75% 0.07 195); }
@media (prefers-color-scheme: dark) {
  :root { --bar-2: oklch(64% 0.08 190); --bar-3: oklch(49% 0.06 195); }
}
.plots { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-6); }
@media (min-width: 1100px) { .plots.beside { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.plot { margin: 0; min-width: 0; }
.plot figcaption { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); align-items: baseline; font-weight: 600; }
.plot-key { display: flex; gap: var(--space-3); color: var(--ink-soft); font-size: var(--size-1); font-weight: 400; }
.plot-frame { display: flex; }
.plot-frame > svg { display: block; overflow: visible; flex: none; }
.plot-frame > .plot-values { width: 48px; }
.plot-frame > .plot-area { flex: 1 1 0; width: 0; min-width: 0; margin-inline-start: var(--space-2); }
.plot text { fill: var(--ink-soft); font-size: var(--size-1); }
.plot-grid line { stroke: var(--line); stroke-width: 1; }
.plot .part-1 { fill: var(--bar-1); }
.plot-area:has(.part-2) .part-1, .plot-key:has(.part-2) .part-1 { fill: var(--bar-3); }
.plot .part-2 { fill: var(--bar-2); }
.plot .part-3 { fill: var(--bar-1); }
.plot .errors { fill: var(--bad); }
.plot .zero { fill: var(--edge); }
.plot .current .part-1, .plot .current .part-2, .plot .current .part-3, .plot .current .errors { fill-opacity: 0.45; }
.bar { outline: none; }
.bar .slot { fill: transparent; }
.bar:hover .slot { fill: var(--ink); fill-opacity: 0.06; }
.bar:focus-visible .slot { fill: var(--ink); fill-opacity: 0.06; stroke: var(--accent); stroke-width: 2; }
.plot .readout { display: none; fill: var(--ink); }
.bar:hover .readout, .bar:focus-visible .readout { display: block; }
/* While the pointer is over one step, it is the one that is shown. */
.plot-area:has(.bar:hover) .bar:not(:hover) .readout { display: none; }
.numbers { overflow-x: auto; max-height: 480px; border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.numbers th, .numbers td { padding: var(--space-1) var(--space-3); text-align: end; white-space: nowrap; }
.numbers tbody th { min-width: 0; color: var(--ink-soft); }
.numbers th:first-child { text-align: start; }
details > summary { min-height: var(--target); line-height: var(--target); cursor: pointer; }
.choices { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-6); align-items: center; justify-content: space-between; }
@media (forced-colors: active) {
  .plot rect:not(.slot) { fill: CanvasText; }
  .plot .errors { fill: Mark; }
  .plot text { fill: CanvasText; }
}
`;
