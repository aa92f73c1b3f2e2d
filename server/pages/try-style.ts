/** What the page for trying tools needs besides the rest of the stylesheet. */
export const tryStyle = `
.trying { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-5) var(--space-6); align-items: start; }
.tools { display: flex; flex-direction: column; padding: 0; list-style: none; max-height: 260px; overflow-y: auto; }
.tools a { display: flex; align-items: center; min-height: var(--target); padding: 0 var(--space-3); border-radius: var(--radius); color: var(--ink); font-family: var(--mono); text-decoration: none; }
.tools a:hover { background: var(--surface); }
.tools a[aria-current] { background: var(--surface); box-shadow: inset 2px 0 0 var(--accent); font-weight: 600; }
.trying form { max-width: 640px; }
.described { max-width: 640px; white-space: pre-line; color: var(--ink-soft); max-height: 320px; overflow-y: auto; }
.result h3 { margin: 0; font-size: var(--size-2); }
.result .failed { border-left-color: var(--bad); }
.fine { font-size: var(--size-1); }
.result pre { max-height: 420px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (min-width: 900px) {
  .trying { grid-template-columns: 220px minmax(0, 1fr); }
  .tools { max-height: 70vh; }
}
`;
