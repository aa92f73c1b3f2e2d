import { offeredKinds } from '#model/upstream-kinds';

const ofOtherKinds = offeredKinds
  .filter(({ settings }) => settings.length > 0)
  .map(({ kind }) => `form:not(:has(#kind-${kind}:checked)) .for-${kind}`)
  .join(', ');
const tabs = ['claude-desktop', 'claude-code', 'cursor', 'vs-code', 'gemini-cli', 'plain'];

export const dashboardStyle = `
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.soft { color: var(--ink-soft); font-weight: 400; }
body.dashboard { display: grid; grid-template: 'top' auto 'side' auto 'main' 1fr 'small' auto / minmax(0, 1fr); }
.dashboard .top { grid-area: top; justify-content: flex-start; padding-block: var(--space-2); }
.dashboard .top .person { margin-left: auto; }
.dashboard .small { grid-area: small; }
.dashboard main { grid-area: main; margin: 0; padding: var(--space-5); font-size: var(--size-2); }
.dashboard main.form > :not(nav) { max-width: 560px; }
.dashboard main.text > :not(nav) { max-width: 720px; }
.dashboard main { max-width: calc(1200px + 2 * var(--space-6)); }
.side { grid-area: side; border-bottom: 1px solid var(--line); overflow-x: auto; scrollbar-width: thin; }
.side ul { display: flex; gap: var(--space-1); padding: var(--space-1) var(--space-4); list-style: none; }
.side a { display: flex; align-items: center; min-height: var(--target); padding: 0 var(--space-3); border-radius: var(--radius); color: var(--ink-soft); text-decoration: none; white-space: nowrap; }
.side a:hover { color: var(--ink); background: var(--surface); }
.side a[aria-current] { color: var(--ink); font-weight: 600; background: var(--surface); box-shadow: inset 0 -2px 0 var(--accent); }
@media (min-width: 900px) {
  body.dashboard { grid-template: 'top top' auto 'side main' 1fr 'side small' auto / 208px minmax(0, 1fr); }
  .side { border: 0; border-right: 1px solid var(--line); }
  .side ul { position: sticky; top: 0; flex-direction: column; padding: var(--space-5) var(--space-3); }
  .side a[aria-current] { box-shadow: inset 2px 0 0 var(--accent); }
  .dashboard main { padding: var(--space-5) var(--space-6); }
}
/* The tabs of a server fit into a line. */
@media (min-width: 900px) and (max-width: 999px) {
  body.dashboard { grid-template-columns: 184px minmax(0, 1fr); }
  .dashboard main { padding-inline: var(--space-5); }
  .dashboard .subnav { column-gap: var(--space-3); }
}
.switcher { position: relative; min-width: 0; }
.switcher summary { display: flex; gap: var(--space-2); align-items: center; min-height: var(--target); max-width: min(60vw, 320px); padding: 0 var(--space-2); border-radius: var(--radius); cursor: pointer; list-style: none; }
.switcher summary::-webkit-details-marker { display: none; }
.switcher summary::after { content: ''; flex: none; width: 7px; height: 7px; margin-top: -4px; border: solid var(--ink-soft); border-width: 0 1.5px 1.5px 0; transform: rotate(45deg); }
.switcher .soft { flex: none; }
@media (max-width: 599px) { .switcher .soft { position: absolute; overflow: hidden; width: 1px; height: 1px; clip-path: inset(50%); } }
.switcher summary strong { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.switcher ul { position: absolute; z-index: 2; top: 100%; left: 0; min-width: 220px; max-width: calc(100vw - 32px); max-height: 60vh; overflow: auto; padding: var(--space-1); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); box-shadow: var(--shadow); list-style: none; }
.switcher li:last-child:not(:first-child) { margin-top: var(--space-1); padding-top: var(--space-1); border-top: 1px solid var(--line); }
.switcher a { display: flex; flex-wrap: wrap; gap: 0 var(--space-2); align-items: center; min-height: var(--target); padding: 0 var(--space-3); border-radius: var(--radius); color: var(--ink); text-decoration: none; }
.switcher a:hover { background: var(--ground); }
@media (max-width: 599px) {
  .dashboard .top { gap: var(--space-1); padding-inline: var(--space-3); }
  .dashboard .top .switcher { flex: 1 1 auto; }
  .dashboard .top .switcher summary { max-width: 100%; }
  .dashboard .top .brand, .dashboard .find-link { display: inline-flex; flex: none; align-items: center; justify-content: center; min-width: var(--target); padding: 0; border-color: transparent; }
  .dashboard .top .brand span { position: absolute; overflow: hidden; width: 1px; height: 1px; clip-path: inset(50%); }
}
@media (max-width: 599px) {
  .dashboard .top { position: relative; }
  .switcher { position: static; }
  .switcher ul { top: calc(var(--target) + 2 * var(--space-2)); left: var(--space-4); right: var(--space-4); max-width: none; }
}
.find-link { display: inline-flex; flex: none; gap: var(--space-2); align-items: center; min-height: var(--target); padding: 0 var(--space-3); border: 1px solid var(--line); border-radius: var(--radius); color: var(--ink-soft); text-decoration: none; }
.find-link:hover { color: var(--ink); border-color: var(--edge); }
kbd { color: var(--ink-soft); font-family: inherit; font-size: var(--size-1); }
@media (max-width: 899px) { .find-link span { position: absolute; overflow: hidden; width: 1px; height: 1px; clip-path: inset(50%); } .find-link kbd { display: none; } }
.find-form { flex-direction: row; gap: var(--space-2); }
.find-form input { flex: 1; min-width: 0; }
.hits { display: flex; flex-direction: column; gap: var(--space-2); }
.dashboard .hits h2 { margin-top: var(--space-3); color: var(--ink-soft); font-size: var(--size-1); }
.hits ul { padding: 0; list-style: none; }
.hits a { display: flex; flex-wrap: wrap; gap: 0 var(--space-3); align-items: center; min-height: var(--target); padding: var(--space-1) var(--space-3); border-radius: var(--radius); color: var(--ink); text-decoration: none; }
.hits a:hover, .hits a:focus-visible { background: var(--ground); }
.hits a .soft { font-size: var(--size-1); }
dialog.find { width: min(600px, calc(100vw - 32px)); max-height: 80vh; margin-top: 10vh; }
.crumbs ol { display: flex; flex-wrap: wrap; gap: 0 var(--space-2); margin: 0; padding: 0; list-style: none; color: var(--ink-soft); font-size: var(--size-2); }
.crumbs li { display: flex; gap: var(--space-2); align-items: center; min-width: 0; }
.crumbs li + li::before { content: '/'; color: var(--edge); }
.crumbs a { color: inherit; text-decoration: none; padding: var(--space-1) 0; }
.crumbs a:hover { text-decoration: underline; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 280px), 1fr)); gap: var(--space-4); margin: 0; padding: 0; list-style: none; }
.card { display: flex; flex-direction: column; gap: var(--space-2); padding: var(--space-4); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.card-head { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-3); align-items: baseline; justify-content: space-between; }
.card h3 { margin: 0; font-size: var(--size-3); }
.for-groups > * + * { margin-top: var(--space-4); }
.card > p:last-child { margin-top: auto; padding-top: var(--space-2); }
.first-steps { display: flex; flex-direction: column; gap: var(--space-2); padding-left: 20px; }
.first-steps .done > span:not(.badge) { color: var(--ink-soft); text-decoration: line-through; }
.heading { display: flex; flex-wrap: wrap; gap: var(--space-3) var(--space-5); align-items: flex-start; justify-content: space-between; }
.heading > div { flex: 1 1 280px; min-width: 0; }
.heading h1 { display: inline; margin-right: var(--space-2); }
.heading .badge { vertical-align: 6px; }
.heading .lead { margin-top: var(--space-1); max-width: 640px; }
.dashboard h2 { font-size: var(--size-3); }
.dashboard h3 { margin: 0; font-size: var(--size-2); }
.notice > p + p { margin-top: var(--space-2); }
.dashboard .section { padding-top: var(--space-5); }
.dashboard button.primary { min-height: var(--target); font-size: var(--size-2); }
a.primary { border-color: var(--accent); background: var(--accent); color: var(--accent-ink); }
a.primary:hover { border-color: var(--ink); }
.subnav { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); border-bottom: 1px solid var(--line); padding: 0; list-style: none; }
.subnav a { display: flex; align-items: center; min-height: var(--target); margin-bottom: -1px; color: var(--ink-soft); text-decoration: none; border-bottom: 2px solid transparent; }
.subnav a:hover { color: var(--ink); }
.subnav a[aria-current] { color: var(--ink); font-weight: 600; border-color: var(--accent); }
.badge.good { border-color: var(--good); color: var(--good); }
.badge.bad { border-color: var(--bad); color: var(--bad); }
.small-button { min-height: 32px; padding: 0 var(--space-3); font-weight: 400; white-space: nowrap; }
a.danger, button.danger { color: var(--bad); }
button.strong { border-color: var(--bad); background: var(--bad); color: var(--ground); }
.id { display: inline-flex; gap: var(--space-1); align-items: center; }
.id > button, .copied > button { flex: none; white-space: nowrap; }
.copy { flex: none; white-space: nowrap; min-height: 28px; font-size: var(--size-1); font-weight: 400; }
.code { display: flex; flex-direction: row-reverse; gap: var(--space-2); align-items: flex-start; min-width: 0; }
.code button { flex: none; }
.code pre { flex: 1 1 0; min-width: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.word { white-space: nowrap; }
.group > .section { margin-top: var(--space-3); }
.group > h2:not(:first-child), .section > h2:not(:first-child) { margin-top: var(--space-4); }
.section > .rows + .actions { margin-top: var(--space-2); }
.section > .rows + form, .section > .facts + form, .section > .facts + .field { margin-top: var(--space-3); }
.facts + .actions { margin-top: var(--space-2); }
.links { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); }
.rows > li > .actions { flex: none; }
.rows .copied { margin-block: var(--space-1); }
nav:has(> .subnav) + .section { padding-top: 0; border-top: 0; }
.code pre { min-height: calc(var(--target) + 2 * var(--space-2)); }
.empty { display: flex; flex-direction: column; gap: var(--space-3); align-items: flex-start; padding: var(--space-6) var(--space-5); border: 1px dashed var(--edge); border-radius: var(--radius); color: var(--ink-soft); }
@media (max-width: 700px) {
  .small-button { min-height: var(--target); }
  .code { flex-direction: column; }
  .code button { align-self: flex-end; }
  .code pre { flex: none; width: 100%; }
}
.filter { flex-direction: row; flex-wrap: wrap; gap: var(--space-2); }
.filter button { flex: none; align-self: stretch; }
.filter input { flex: 1 1 180px; max-width: 320px; min-height: var(--target); }
@media (min-width: 1100px) { .filter:not(:has(> input:not([type='hidden']))) { flex-wrap: nowrap; } }
.filter > select { min-width: 0; }
.filter.many > input { flex-basis: 120px; }
.filter.many > #target { flex-basis: 240px; }
.filter .days { display: flex; gap: var(--space-2); align-items: center; }
.filter .day input { min-width: 0; }
@media (min-width: 560px) and (max-width: 699px) {
  .filter.many > input, .filter.many > select { flex: 1 1 40%; max-width: none; }
}
@media (max-width: 559px) {
  .filter:not(:has(> input:not([type='hidden']))) > select { flex: 1 1 100%; max-width: none; }
  .filter:has(> select) > input, .filter.many > input { flex-basis: 100%; max-width: none; }
  .filter:has(> select) > select { flex: 1 1 0; min-width: 0; max-width: none; }
  .filter.many:has(> select) > select { flex-basis: 40%; }
  .filter .days { flex: 1 0 100%; flex-wrap: wrap; }
  .filter .days .day { flex: 1 1 120px; flex-direction: column; gap: var(--space-1); align-items: stretch; }
  .filter .days .day input { flex: none; max-width: none; }
  .filter .days button { flex: 1 0 100%; }
}
.chips { display: flex; flex-wrap: wrap; gap: var(--space-2); padding: 0; list-style: none; }
.chips li { display: flex; flex-wrap: wrap; gap: 0 var(--space-2); align-items: center; min-height: var(--target); max-width: 100%; padding: var(--space-1) var(--space-3); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); overflow-wrap: anywhere; }
.chips strong { font-weight: 600; }
.pager { display: flex; flex-wrap: wrap; gap: var(--space-3); align-items: center; color: var(--ink-soft); }

textarea, select { width: 100%; min-height: 40px; padding: var(--space-2) var(--space-3); border: 1px solid var(--edge); border-radius: var(--radius); background: var(--surface); color: var(--ink); font: inherit; }
.filter .day { display: flex; flex: 0 1 auto; gap: var(--space-2); align-items: center; color: var(--ink-soft); font-weight: 400; white-space: nowrap; }
.filter select { width: auto; max-width: min(100%, 280px); min-height: var(--target); text-overflow: ellipsis; }
textarea { resize: vertical; }
textarea.code-like { font-family: var(--mono); font-size: 13px; }
.wrong textarea, .wrong select { border-color: var(--bad); box-shadow: inset 3px 0 0 var(--bad); }
fieldset { min-width: 0; margin: 0; padding: 0; border: 0; }
.options { display: flex; flex-direction: column; gap: var(--space-3); }
legend { padding: 0; margin-bottom: var(--space-2); font-weight: 600; }
/** The heading of the section says the same. */
.section.titled legend { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
/** A floated legend is a line of its section rather than a gap in the section's border. */
fieldset.section > legend { float: left; margin: 0; }
.option { display: flex; gap: var(--space-3); align-items: flex-start; }
.option input { flex: none; width: 18px; height: 18px; min-height: 0; margin: 2px 0 0; accent-color: var(--accent); }
.option label { display: inline-block; min-height: 24px; font-weight: 400; }
.option .help { font-size: var(--size-1); }
.optional { color: var(--ink-soft); font-weight: 400; }
.for-access, .for-key { display: flex; flex-direction: column; gap: var(--space-4); }
form:not(:has(#expiry option[value='date']:checked)) .for-date, form:has(#kind-none:checked) .for-access, form:has(#kind-person-key:checked) .for-access, form:not(:has(#kind-person-key:checked)) .for-key, ${ofOtherKinds}, form:not(:has(#proof-keys:checked)) .for-keys, form:not(:has(#access-groups:checked, #install-groups:checked)) .for-groups { display: none; }
.consequences { display: flex; flex-direction: column; gap: var(--space-2); padding: 0 0 var(--space-2) 20px; }
.facts { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-3); }
.facts dt { color: var(--ink-soft); font-size: var(--size-1); }
.facts dd { margin: 0; min-width: 0; }
.facts.beside { grid-template-columns: repeat(auto-fill, minmax(min(100%, 240px), 1fr)); gap: var(--space-4) var(--space-5); }
@media (max-width: 559px) {
  .facts.beside { gap: var(--space-2); }
  .facts.beside > div { display: grid; grid-template-columns: 128px minmax(0, 1fr); gap: var(--space-3); align-items: baseline; }
}
.copied { display: flex; flex-wrap: wrap; gap: var(--space-2); align-items: center; }
.copied code { flex: 0 1 auto; min-width: 0; padding: var(--space-2) var(--space-3); border: 1px solid var(--line); border-radius: var(--radius); background: var(--ground); overflow-wrap: anywhere; }
.secret { display: flex; flex-direction: column; gap: var(--space-4); padding: var(--space-5); border: 1px solid var(--accent); border-radius: var(--radius); background: var(--surface); }
.stored { padding-top: var(--space-4); border-top: 1px solid var(--line); }
.stored label { font-weight: 600; }
.tabs { display: flex; flex-wrap: wrap; gap: 0 var(--space-1); min-width: 0; }
.tabs > input { position: absolute; width: 1px; min-height: 0; height: 1px; padding: 0; opacity: 0; }
.tabs > label { display: flex; align-items: center; min-height: var(--target); padding: 0 var(--space-3); border-bottom: 2px solid transparent; color: var(--ink-soft); font-weight: 400; cursor: pointer; }
.tabs > label:hover { color: var(--ink); }
.tabs > input:checked + label { color: var(--ink); font-weight: 600; border-color: var(--accent); }
.tabs > input:focus-visible + label { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: var(--radius); }
.tabs .panel { display: none; flex: 1 0 100%; flex-direction: column; gap: var(--space-2); min-width: 0; max-width: 100%; padding-top: var(--space-3); border-top: 1px solid var(--line); margin-top: -1px; }
${tabs.map((id) => `.tabs:has(#tab-${id}:checked) .panel-${id}`).join(', ')} { display: flex; }
pre { margin: 0; padding: var(--space-3) var(--space-4); overflow-x: auto; border: 1px solid var(--line); border-radius: var(--radius); background: var(--ground); font-size: 13px; overflow-wrap: normal; }
.actions > .for-http { display: flex; }
.switch { display: inline-flex; gap: var(--space-2); align-items: center; }
.switch::before { content: ''; flex: none; width: 34px; height: 20px; border: 1px solid var(--edge); border-radius: 10px; background: radial-gradient(circle at 10px 50%, var(--edge) 6px, transparent 7px); }
.switch[aria-checked='true']::before { border-color: var(--accent); background: radial-gradient(circle at 23px 50%, var(--surface) 6px, transparent 7px) var(--accent); }
.change { white-space: pre-wrap; overflow-wrap: anywhere; }
.change span { display: block; padding-inline-start: 2ch; text-indent: -2ch; }
.change .gone { color: var(--bad); }
.change .added { color: var(--good); }
.ways { display: flex; flex-direction: column; gap: var(--space-5); min-width: 0; }
.ways h3 { margin: 0; font-size: var(--size-2); }
.other > summary { width: fit-content; padding-inline-end: var(--space-3); font-weight: 600; }
.other > .group { padding-top: var(--space-2); }
.steps { display: flex; flex-direction: column; gap: var(--space-5); margin: 0; padding: 0; list-style: none; counter-reset: step; }
.steps > li { position: relative; display: flex; flex-direction: column; gap: var(--space-3); padding-inline-start: 44px; counter-increment: step; }
.steps > li::before { content: counter(step); position: absolute; inset-inline-start: 0; top: -2px; width: 28px; height: 28px; border: 1px solid var(--edge); border-radius: 50%; text-align: center; line-height: 26px; font-weight: 600; }
.steps h3 { margin: 0; font-size: var(--size-2); }
.steps.going-on { counter-reset: step 2; }
.steps > li.done::before { content: '\\2713'; border-color: var(--good); color: var(--good); }
dialog { width: min(480px, calc(100vw - 32px)); padding: var(--space-5); border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); color: var(--ink); box-shadow: var(--shadow); }
dialog::backdrop { background: oklch(0% 0 0 / 40%); }
dialog h1 { font-size: var(--size-4); }
@media (prefers-reduced-motion: no-preference) {
  .fresh { animation: fresh 2s ease-out; }
  @keyframes fresh { from { background: color-mix(in oklch, var(--accent) 18%, transparent); } }
}
@media (prefers-reduced-motion: reduce) {
  .fresh { box-shadow: inset 3px 0 0 var(--accent); }
}
`;

/** The styles of the page for trying tools. */
export const tryStyle = `
.trying { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-5) var(--space-6); align-items: start; }
.tools { display: flex; flex-direction: column; padding: 0; list-style: none; max-height: 260px; overflow-y: auto; }
.tools a { display: flex; align-items: center; min-height: var(--target); padding: 0 var(--space-3); border-radius: var(--radius); color: var(--ink); font-family: var(--mono); text-decoration: none; }
.tools a:hover { background: var(--surface); }
.tools a[aria-current] { background: var(--surface); box-shadow: inset 2px 0 0 var(--accent); font-weight: 600; }
.trying form { max-width: 640px; }
.described { max-width: 640px; white-space: pre-line; color: var(--ink-soft); max-height: 320px; overflow-y: auto; }
.tried { display: grid; grid-template-columns: minmax(0, 1fr); gap: var(--space-5); align-items: start; }
.tried .result { order: -1; }
@media (min-width: 1200px) { .tried:has(.result) { grid-template-columns: repeat(2, minmax(0, 1fr)); } .tried .result { order: 0; } }
.result h3 { margin: 0; font-size: var(--size-2); }
.result .failed { border-left-color: var(--bad); }
.fine { font-size: var(--size-1); }
.result pre, .contents { max-height: 420px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (min-width: 900px) {
  .trying { grid-template-columns: 220px minmax(0, 1fr); }
  .tools { max-height: 70vh; }
}
`;
