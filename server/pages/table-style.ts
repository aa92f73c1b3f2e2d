/**
 * Tables: columns where there is room for all of them; a name with its facts in lines below it where there is not, rather than
 * columns out of sight; on a phone a fact a line.
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
tbody th a, tbody th > span:first-child { font-weight: 600; }
tbody td { color: var(--ink-soft); }
td.cell-time, td.cell-id, td.cell-hint { white-space: nowrap; }
td.cell-text > span { display: inline-block; min-width: 9ch; }
@media (min-width: 701px) { td.cell-text > .word { white-space: nowrap; } }
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
  .scroll tbody td[data-label]:not(.cell-actions)::before { content: attr(data-label) ': '; font-size: var(--size-1); }
  .scroll td.cell-text > span { display: inline; }
  .scroll td.cell-actions { display: flex; flex-wrap: wrap; gap: var(--space-2); padding-top: var(--space-2); }
  .scroll td.none, .scroll td.cell-actions:not(:has(a)) { display: none; }
}
${rowsInside('max-width: 730px', 'th:nth-child(5)')}
${rowsInside('max-width: 820px', 'th:nth-child(7)')}
${rowsInside('max-width: 1020px', 'th:nth-child(6)):has(.cell-id')}
`;

/** A table that is wider than its box, as rows of facts under what they can be sorted by; not on a phone. */
function rowsInside(box: string, column: string): string {
  const table = `.scroll table:has(${column})`;
  return `@container (${box}) { @media (min-width: 701px) {
  ${table}, ${table} tbody, ${table} th, ${table} td { display: block; }
  ${table} thead:not(:has(a)) { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  ${table} thead { display: block; border-bottom: 1px solid var(--line); }
  ${table} thead tr { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); padding: var(--space-2) var(--space-4); color: var(--ink-soft); font-size: var(--size-1); }
  ${table} thead tr::before { content: 'Sorted by'; }
  ${table} thead th { padding: 0; }
  ${table} thead th:not(:has(a)) { display: none; }
  ${table} tbody tr { display: flex; flex-wrap: wrap; gap: 2px var(--space-5); align-items: center; padding: var(--space-3) var(--space-4); }
  ${table} tbody tr:first-child { border-top: 0; }
  ${table} tbody th { flex: 1 0 100%; max-width: none; padding: 0; }
  ${table} tbody td { padding: 0; text-align: start; }
  ${table} td[data-label]:not(.cell-actions)::before { content: attr(data-label) ': '; font-size: var(--size-1); }
  ${table} td.cell-text > span { display: inline; }
  ${table} td.none, ${table} td.cell-actions:not(:has(a)) { display: none; }
} }`;
}
