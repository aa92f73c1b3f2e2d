/** Every colour, size and space of the pages by name; the dark theme uses the same names. */
export const styleTokens = `
:root {
  color-scheme: light dark;
  --ground: oklch(98.4% 0.004 205);
  --surface: oklch(100% 0 0);
  --line: oklch(89% 0.008 210);
  --edge: oklch(60% 0.02 215);
  --ink: oklch(24% 0.018 220);
  --ink-soft: oklch(46% 0.018 220);
  --accent: oklch(44% 0.08 195);
  --accent-ink: oklch(99% 0.006 195);
  --good: oklch(45% 0.11 150);
  --warn: oklch(48% 0.1 70);
  --bad: oklch(48% 0.17 25);
  --shadow: 0 1px 2px oklch(20% 0.02 220 / 6%), 0 8px 24px oklch(20% 0.02 220 / 7%);
  --sans: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', sans-serif;
  --mono: ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  --size-1: 12px;
  --size-2: 14px;
  --size-3: 16px;
  --size-4: 20px;
  --size-5: 28px;
  --space-1: 4px;
  --space-2: 8px;
  --space-3: 12px;
  --space-4: 16px;
  --space-5: 24px;
  --space-6: 32px;
  --space-7: 48px;
  --radius: 6px;
  --target: 36px;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: oklch(18% 0.012 220);
    --surface: oklch(22.5% 0.014 220);
    --line: oklch(33% 0.016 220);
    --edge: oklch(58% 0.02 215);
    --ink: oklch(94% 0.006 210);
    --ink-soft: oklch(74% 0.014 215);
    --accent: oklch(79% 0.095 190);
    --accent-ink: oklch(20% 0.03 200);
    --good: oklch(79% 0.13 150);
    --warn: oklch(83% 0.12 80);
    --bad: oklch(77% 0.13 25);
    --shadow: 0 1px 2px oklch(0% 0 0 / 30%), 0 8px 24px oklch(0% 0 0 / 30%);
  }
}
@media (pointer: coarse) {
  :root { --target: 44px; }
}
`;
