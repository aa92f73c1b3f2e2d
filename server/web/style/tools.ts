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
.definition dd { max-height: 320px; margin: 0; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--mono); font-size: 13px; }
.names { display: flex; flex-wrap: wrap; gap: var(--space-1) var(--space-4); padding: 0; list-style: none; }
form:not(:has(#tools-chosen:checked)) .for-chosen { display: none; }
.for-chosen { display: flex; flex-direction: column; gap: var(--space-4); padding: var(--space-4); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.boxes ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 240px), 1fr)); gap: 0 var(--space-4); max-height: 420px; padding: 0; overflow-y: auto; list-style: none; }
.boxes li { display: flex; flex-wrap: wrap; gap: 0 var(--space-2); align-items: center; min-width: 0; min-height: var(--target); }
.boxes li > input { flex: none; }
.boxes li > label { flex: 0 1 auto; min-width: 0; max-width: calc(100% - 30px); font-weight: 400; }
`;
