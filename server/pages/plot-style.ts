/** What plots need besides the rest of the stylesheet. */
export const plotStyle = `
:root {
  --line-2: oklch(48% 0.16 290);
  --line-3: oklch(50% 0.11 60);
  --line-4: oklch(50% 0.17 350);
  --line-5: oklch(45% 0.02 215);
}
@media (prefers-color-scheme: dark) {
  :root {
    --line-2: oklch(77% 0.12 290);
    --line-3: oklch(82% 0.12 75);
    --line-4: oklch(78% 0.13 350);
    --line-5: oklch(76% 0.015 215);
  }
}
.plots { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-6); }
.plots.beside .plot-labels { width: 64px; }
@media (min-width: 1100px) { .plots.beside { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.plot { margin: 0; min-width: 0; }
.plot figcaption { margin-bottom: var(--space-2); font-weight: 600; }
.plot-frame { display: flex; }
.plot-frame > svg { display: block; overflow: visible; flex: none; }
.plot-frame > .plot-values { width: 40px; }
.plot-frame > .plot-area { flex: 1 1 0; width: 0; min-width: 0; margin-inline-start: var(--space-2); }
.plot-frame > .plot-labels { width: 120px; overflow: hidden; }
.plot text { fill: var(--ink-soft); font-size: var(--size-1); }
.plot-grid line { stroke: var(--line); stroke-width: 1; }
.plot-area path { fill: none; stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round; vector-effect: non-scaling-stroke; stroke: var(--accent); }
.plot-area .line-2 { stroke: var(--line-2); stroke-dasharray: 6 4; }
.plot-area .line-3 { stroke: var(--line-3); stroke-dasharray: 2 4; }
.plot-area .line-4 { stroke: var(--line-4); stroke-dasharray: 9 3 2 3; }
.plot-area .line-5 { stroke: var(--line-5); }
.plot-area .dot { stroke-width: 5; stroke-dasharray: none; }
.plot-labels .name-1 { fill: var(--accent); }
.plot-labels .name-2 { fill: var(--line-2); }
.plot-labels .name-3 { fill: var(--line-3); }
.plot-labels .name-4 { fill: var(--line-4); }
.plot-labels .name-5 { fill: var(--line-5); }
.numbers { overflow-x: auto; max-height: 480px; border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.numbers th, .numbers td { padding: var(--space-1) var(--space-3); text-align: end; white-space: nowrap; }
.numbers tbody th { min-width: 0; color: var(--ink-soft); }
.numbers th:first-child { text-align: start; }
details > summary { min-height: var(--target); line-height: var(--target); cursor: pointer; }
.choices { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-6); align-items: center; justify-content: space-between; }
@media (forced-colors: active) {
  .plot-area path { stroke: CanvasText; }
  .plot text { fill: CanvasText; }
}
`;
