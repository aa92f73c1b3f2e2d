/** The styles of the pages about tools: comparisons, the matrix, and choosing some of them. */
export const toolStyle = `
.revealed { padding: 0 2px; border: 1px solid var(--warn); border-radius: 3px; background: none; color: var(--warn); font-family: var(--mono); font-size: 0.85em; }
del, ins { text-decoration: none; border-radius: 2px; }
del { background: color-mix(in oklch, var(--bad) 14%, transparent); text-decoration: line-through; text-decoration-color: var(--bad); }
ins { background: color-mix(in oklch, var(--good) 16%, transparent); text-decoration: underline; text-decoration-color: var(--good); text-underline-offset: 2px; }
.compared { table-layout: fixed; border: 1px solid var(--line); border-radius: var(--radius); border-collapse: separate; border-spacing: 0; background: var(--surface); font-size: 13px; }
.compared th, .compared td { padding: 2px var(--space-3); vertical-align: top; }
.compared td { color: var(--ink); font-family: var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; text-align: start; }
.compared td + td, .compared thead th + th { border-inline-start: 1px solid var(--line); }
.compared thead th { padding-block: var(--space-1); }
.compared tbody th { min-width: 0; max-width: none; padding-block: var(--space-2) var(--space-1); border-top: 1px solid var(--line); color: var(--ink-soft); font-weight: 600; font-family: var(--sans); }
.compared tbody tr { border: 0; }
.compared tbody tr:hover { background: none; }
.compared tbody tr:last-child td { padding-bottom: var(--space-2); }
.compared .same td, .compared .left-out td { color: var(--ink-soft); }
.compared .left-out td { font-family: var(--sans); font-size: var(--size-1); font-style: italic; }
@media (max-width: 700px) {
  .compared, .compared tbody, .compared tr, .compared td, .compared tbody th { display: block; }
  .compared thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  .compared td + td { border: 0; }
  .compared .same td + td, .compared td.none { display: none; }
  .compared tr:not(.same) td.before, .compared tr:not(.same) td.after { position: relative; padding-inline-start: 28px; }
  .compared tr:not(.same) td.before::before, .compared tr:not(.same) td.after::before { position: absolute; inset-inline-start: var(--space-3); }
  .compared tr:not(.same) td.before::before { content: '\\2212'; color: var(--bad); }
  .compared tr:not(.same) td.after::before { content: '+'; color: var(--good); }
}
.definition { display: flex; flex-direction: column; gap: var(--space-3); }
.definition dt { color: var(--ink-soft); font-size: var(--size-1); }
.definition > div > dd { margin: 0; min-width: 0; }
.verbatim { white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--mono); font-size: 13px; }
.names { display: flex; flex-wrap: wrap; gap: var(--space-1) var(--space-4); padding: 0; list-style: none; }
form:not(:has(#tools-chosen:checked)) .for-chosen { display: none; }
.for-chosen { display: flex; flex-direction: column; gap: var(--space-4); padding: var(--space-4); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.boxes ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 240px), 1fr)); gap: 0 var(--space-4); max-height: 420px; padding: 0; overflow-y: auto; list-style: none; }
.boxes li { display: grid; grid-template-columns: 18px minmax(0, 1fr); gap: var(--space-3); align-items: center; min-height: var(--target); padding-block: 2px; }
.boxes label { font-weight: 400; }
/* The count of a choice stands above the button that saves it, which it follows in the markup: Enter presses the first. */
form:has(> [data-count] > button[hidden]) > .actions:not([data-count]) { order: 1; }
.parts { display: flex; flex-wrap: wrap; gap: var(--space-1) var(--space-2); padding: 0; list-style: none; }
.parts a { display: flex; align-items: center; min-height: var(--target); padding: 0 var(--space-3); border: 1px solid transparent; border-radius: var(--radius); color: var(--ink-soft); text-decoration: none; }
.parts a:hover { color: var(--ink); }
.parts a[aria-current] { border-color: var(--line); background: var(--surface); color: var(--ink); font-weight: 600; }
.narrow-form { max-width: 480px; }
.matrix th { white-space: normal; }
.matrix thead th { min-width: 96px; vertical-align: bottom; }
.matrix thead th .soft { display: block; }
.matrix thead th + th, .matrix td { text-align: center; }
.matrix .fill { display: block; min-height: 28px; margin: var(--space-1) auto 0; font-size: var(--size-1); font-weight: 400; text-decoration: underline; text-underline-offset: 3px; }
.matrix tbody th { position: sticky; inset-inline-start: 0; z-index: 1; min-width: 200px; background: var(--surface); }
.matrix tbody th code { font-weight: 600; }
.matrix tbody tr:hover th { background: var(--ground); }
.matrix td label { display: inline-flex; gap: var(--space-2); align-items: center; justify-content: center; min-width: var(--target); min-height: var(--target); font-weight: 400; cursor: pointer; }
.matrix td label span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.matrix .later { border-top: 2px solid var(--line); }
.matrix .nothing { color: var(--ink-soft); text-align: start; }
.matrix tr.wrong th { box-shadow: inset 3px 0 0 var(--bad); }
${matrixInRows('@media (max-width: 700px)')}
${matrixInRows('@container (max-width: 730px)', ':has(th:nth-child(5))')}
${matrixInRows('@container (max-width: 820px)', ':has(th:nth-child(7))')}
${matrixInRows('@container (max-width: 1020px)', ':has(th:nth-child(8))')}
.checked > li > .badge { flex: none; }
.review { gap: var(--space-3); }
.review h2 { display: flex; flex-wrap: wrap; gap: var(--space-1) var(--space-2); align-items: center; font-size: var(--size-3); }
.review h2 .badge, .review h2 .soft { font-size: var(--size-1); font-weight: 400; }
.review .card-head { align-items: center; }
.review .option { align-items: center; min-width: 0; }
.review .option input { margin: 0; }
.reviewed { display: flex; flex-direction: column; gap: var(--space-5); min-width: 0; }
.warnings { display: flex; flex-direction: column; gap: var(--space-2); padding: 0; list-style: none; }
.beside-server { display: flex; flex-direction: column; gap: var(--space-5); }
.pair { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-2) var(--space-5); }
.said { min-width: 0; padding: var(--space-2) var(--space-3); border-inline-start: 2px solid var(--line); color: var(--ink-soft); }
.said .label { color: var(--ink-soft); font-size: var(--size-1); font-weight: 400; }
.said > p:not(.label) { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (min-width: 700px) { .pair { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
`;

/** Where the columns of the matrix do not fit, each row shows its labelled checkboxes below its name. */
function matrixInRows(where: string, matrix = ''): string {
  const table = `.matrix${matrix}`;
  return `${where} {
  ${table} td { padding: 0; }
  ${table} td label { justify-content: flex-start; min-height: 40px; }
  ${table} td label span { position: static; width: auto; height: auto; clip-path: none; color: var(--ink); }
  ${table} tbody th { position: static; flex: 1 0 100%; }
  ${table} tbody tr { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); }
  ${table} .fill { display: none; }
  ${table} tr:not(.wrong):has(.everyone input:checked) .of-group { display: none; }
}`;
}
