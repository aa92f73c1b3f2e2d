import { dashboardStyle, tryStyle } from './dashboard.ts';
import { plotStyle, tableStyle } from './tables.ts';
import { styleTokens } from './tokens.ts';
import { toolStyle } from './tools.ts';

/** The one stylesheet of all pages. */
export const stylesheet = `${styleTokens}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0;
  min-height: 100vh;
  min-height: 100dvh;
  display: flex;
  flex-direction: column;
  background: var(--ground);
  color: var(--ink);
  font: 400 var(--size-2) / 1.5 var(--sans);
  font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: var(--radius); }
a { color: var(--accent); text-underline-offset: 3px; }
code { font-family: var(--mono); font-size: 0.925em; }
.slug { max-width: 100%; color: var(--ink-soft); font-weight: 400; overflow-wrap: break-word; }
h1, h2 { margin: 0; font-weight: 600; line-height: 1.25; text-wrap: balance; }
h1 { font-size: var(--size-5); letter-spacing: -0.01em; }
@media (max-width: 700px) { h1.long { font-size: var(--size-4); } }
h2 { font-size: var(--size-4); }
p, ul, dl { margin: 0; }
p, li { text-wrap: pretty; }
.skip { position: absolute; left: var(--space-4); top: -64px; padding: var(--space-2) var(--space-3); background: var(--surface); }
.skip:focus { top: var(--space-2); }

.top {
  display: flex;
  flex-wrap: wrap;
  gap: var(--space-2) var(--space-5);
  align-items: center;
  justify-content: space-between;
  padding: var(--space-3) var(--space-5);
  border-bottom: 1px solid var(--line);
}
.brand { display: inline-flex; gap: var(--space-2); align-items: center; min-height: var(--target); color: var(--ink); font-size: var(--size-3); font-weight: 600; text-decoration: none; }
.mark { color: var(--accent); flex: none; }
.person { display: flex; gap: var(--space-3); align-items: center; min-width: 0; }
.person a { display: inline-block; min-width: 0; line-height: var(--target); color: var(--ink-soft); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.person form { flex: none; }
.top .icon { display: none; }
@media (max-width: 599px) {
  .top { flex-wrap: nowrap; }
  .top .icon { display: block; }
  .top .person a, .top .person button { display: inline-flex; flex: none; align-items: center; justify-content: center; min-width: var(--target); padding: 0; border-color: transparent; }
  .top .person { flex: none; gap: 0; }
  .top .person a span, .top .person button span { position: absolute; overflow: hidden; width: 1px; height: 1px; clip-path: inset(50%); }
}

main { flex: 1; width: 100%; margin: 0 auto; padding: var(--space-7) var(--space-5); display: flex; flex-direction: column; gap: var(--space-5); }
main.form { max-width: calc(480px + 2 * var(--space-5)); font-size: var(--size-3); }
main.text { max-width: calc(640px + 2 * var(--space-5)); font-size: var(--size-3); }
main.table { max-width: calc(1200px + 2 * var(--space-5)); }
.lead { color: var(--ink-soft); }
.small { padding: var(--space-4) var(--space-5); color: var(--ink-soft); font-size: var(--size-1); text-align: center; }
.help { color: var(--ink-soft); font-size: var(--size-2); }
.error { color: var(--bad); font-size: var(--size-2); font-weight: 600; }
.error::before { content: '\\26A0\\FE0E\\00A0'; }

form { display: flex; flex-direction: column; gap: var(--space-4); }
.field { display: flex; flex-direction: column; gap: var(--space-1); }
label, .label { font-size: var(--size-2); font-weight: 600; }
input {
  width: 100%;
  min-height: 40px;
  padding: var(--space-2) var(--space-3);
  border: 1px solid var(--edge);
  border-radius: var(--radius);
  background: var(--surface);
  color: var(--ink);
  font: inherit;
}
input[type='checkbox'] { width: 18px; min-height: 18px; accent-color: var(--accent); }
.wrong input:not([type='checkbox'], [type='radio']) { border-color: var(--bad); box-shadow: inset 3px 0 0 var(--bad); }
.summary, .notice { padding: var(--space-3) var(--space-4); border: 1px solid var(--line); border-left: 3px solid var(--bad); border-radius: var(--radius); background: var(--surface); }
.summary ul { padding-left: 20px; }
.summary a { color: var(--bad); }
.notice { border-left-color: var(--good); }
.warning { border-left-color: var(--warn); }

button, .button {
  display: inline-flex;
  gap: var(--space-2);
  align-items: center;
  justify-content: center;
  min-height: var(--target);
  padding: var(--space-1) var(--space-4);
  border: 1px solid var(--edge);
  border-radius: var(--radius);
  background: var(--surface);
  color: var(--ink);
  font: inherit;
  font-size: var(--size-2);
  font-weight: 600;
  text-decoration: none;
  cursor: pointer;
}
button:hover, .button:hover { border-color: var(--ink); }
button.primary { min-height: max(40px, var(--target)); border-color: var(--accent); background: var(--accent); color: var(--accent-ink); font-size: var(--size-3); }
button.primary:hover { border-color: var(--ink); }
button.quiet { border-color: transparent; background: none; color: var(--ink-soft); padding-inline: var(--space-2); }
button.quiet:hover { color: var(--ink); border-color: var(--line); }
button.danger { color: var(--bad); }
button:disabled { opacity: 0.6; cursor: default; }
/* Its text, not its edge, is in line with what stands above it. */
p > button.quiet { margin-inline-start: calc(-1 * var(--space-2)); }
form.inline:not([hidden]) { gap: var(--space-3); }
.others { display: flex; flex-direction: column; gap: var(--space-4); }
.others button, .others .button { width: 100%; min-height: max(40px, var(--target)); font-size: var(--size-3); }
.or { display: flex; gap: var(--space-3); align-items: center; color: var(--ink-soft); font-size: var(--size-2); }
.or::before, .or::after { content: ''; flex: 1; border-top: 1px solid var(--line); }
[hidden] { display: none !important; }

.section { display: flex; flex-direction: column; gap: var(--space-3); padding-top: var(--space-5); border-top: 1px solid var(--line); }
.section.narrow form { max-width: 480px; }
.rows:empty { display: none; }
.rows { list-style: none; padding: 0; border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.rows > li { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-4); align-items: center; justify-content: space-between; padding: var(--space-3) var(--space-4); }
.rows > li + li { border-top: 1px solid var(--line); }
.rows > li > div { flex: 1 1 200px; min-width: 0; }
.rows [dir='auto'] { text-align: left; }
@media (max-width: 559px) { .rows > li:has(> button, > .button, > form, > .actions) > div { flex-basis: 100%; } }
.rows .help { font-size: var(--size-1); }
.rows > .folded > details { flex: 1; min-width: 0; }
.rows > .folded summary { padding: var(--space-1) 0; line-height: 1.5; }
.rows > .folded .rows { margin-top: var(--space-2); }
.badge { padding: 1px var(--space-2); border: 1px solid var(--line); border-radius: var(--radius); color: var(--ink-soft); font-size: var(--size-1); font-weight: 400; display: inline-block; max-width: 100%; overflow-wrap: break-word; }
.badge.care { border-color: var(--warn); color: var(--warn); }
.group { display: flex; flex-direction: column; gap: var(--space-3); }
.qr { margin: 0; width: min(240px, 100%); padding: var(--space-2); border: 1px solid var(--line); border-radius: var(--radius); background: #fff; color: #000; }
.qr svg { display: block; width: 100%; height: auto; }
.codes { display: flex; flex-direction: column; gap: var(--space-3); align-items: flex-start; padding: var(--space-4); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.codes ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: var(--space-2) var(--space-4); width: 100%; padding: 0; list-style: none; }
.actions { display: flex; flex-wrap: wrap; gap: var(--space-3); }
.actions.even button { flex: 1; min-height: max(40px, var(--target)); font-size: var(--size-3); }
.actions.even:has(button:nth-of-type(3)) button { flex: 1 1 auto; padding-inline: var(--space-3); white-space: nowrap; }
${dashboardStyle}${tableStyle}${plotStyle}${tryStyle}${toolStyle}
@media (max-width: 480px) {
  .top, main, .small { padding-left: var(--space-4); padding-right: var(--space-4); }
  main { padding-top: var(--space-6); }
}
@media (prefers-reduced-motion: no-preference) {
  button, .button, input { transition: border-color 150ms, background-color 150ms; }
}
@media (forced-colors: active) {
  button, .button { border-color: ButtonText; }
}
`;
