import type { ToolView } from '#admin/tools';
import type { EpochSeconds } from '#model/clock';
import type { DefinitionKind } from '#model/definitions';
import type { DefinitionWarning } from '#tools/warnings';
import { errorSummary, type FieldError, hiddenField, postForm, selectOptions } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  badge,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { pager, relativeTime } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import { partNavigation } from './tool-tabs.ts';
import { hintBadge, kindWords, stateBadges } from './tool-words.ts';

/** A definition that can be decided about. */
export interface Reviewed {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly digest: string;
}

/** A definition on the page. */
export interface ReviewItem extends Reviewed {
  /** The name to show. */
  readonly text: string;
  readonly href: string;
  readonly tool: ToolView;
  readonly warnings: readonly DefinitionWarning[];
  /** The comparison with the accepted definition, or the definition itself. */
  readonly content: Html;
  /** Who decided last, and when; absent if no one did. */
  readonly decided: { readonly by: string; readonly at: EpochSeconds } | undefined;
}

type State = 'waiting' | 'offered' | 'rejected' | 'accepted';

interface ToolReviewPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly parts: Tabs;
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
  readonly state: State;
  readonly counts: readonly {
    readonly value: State;
    readonly text: string;
    readonly count: number;
  }[];
  readonly items: readonly ReviewItem[];
  /** The number of definitions in the list, on all pages. */
  readonly total: number;
  /** A fingerprint of the list, which tells whether it has changed before a decision about all. */
  readonly all: string;
  readonly filter: string;
  readonly newTools: 'offer' | 'review';
  readonly changedTools: 'flag' | 'withhold';
  /** Where the policies are changed. */
  readonly policy: string;
  readonly range: string;
  readonly previous: string | undefined;
  readonly next: string | undefined;
  readonly path: string;
  readonly action: string;
  readonly now: EpochSeconds;
}

const leads: Readonly<Record<State, string>> = {
  waiting:
    'What is new or has changed since it was accepted. Assistants follow what a description says, so read it before you accept it.',
  offered:
    'What the server listed before anyone reviewed it. Assistants can use it. Keys and applications that may only read cannot: they use what was accepted as read-only.',
  rejected:
    'No one can use these until the accepted definition is listed again, or you accept one.',
  accepted: 'What people have accepted, and when.',
};

const nothing: Readonly<Record<State, string>> = {
  waiting: 'Nothing waits for review.',
  offered: 'Everything that this server offers has been reviewed.',
  rejected: 'Nothing is rejected.',
  accepted: 'Nothing has been accepted yet.',
};

/** Definitions side by side, with warnings about them, and the buttons that accept or reject them. */
export function toolReviewPage(data: ToolReviewPageData, frame: Frame): Html {
  const { heading, tabs, parts, errors, state, items, filter } = data;
  const content = html`${pageHeading({ heading, lead: leads[state] })}
${tabNavigation(tabs)}
${partNavigation(parts)}
${errorSummary(errors)}
${statusNotice(data.notice)}
${filterForm(data)}
${state === 'waiting' && policyLine(data)}
${
  items.length === 0
    ? html`<div class="empty"><p>${filter === '' ? nothing[state] : 'Nothing matches.'}</p></div>`
    : reviewForm(data, frame)
}
${pager(data)}`;
  const title = errors.length > 0 ? 'Nothing decided' : `Review of ${titleText(heading)}`;
  return layout({ title, width: 'table' }, frame, content);
}

function filterForm({ path, counts, state, filter }: ToolReviewPageData): Html {
  const options = counts.map(({ value, text, count }) => ({
    value,
    text: `${text} (${count})`,
    isChosen: value === state,
  }));
  return html`<form class="filter" method="get" action="${path}" role="search">
<label class="unseen" for="filter">Filter by name</label>
<input id="filter" name="filter" type="search" value="${filter}" placeholder="Filter by name" dir="auto" autocomplete="off">
<label class="unseen" for="state">Status</label>
<select id="state" name="state">
${selectOptions(options)}
</select>
<button>Apply</button>
</form>`;
}

function policyLine({ newTools, changedTools, policy }: ToolReviewPageData): Html {
  const news = newTools === 'offer' ? 'offered immediately' : 'blocked until accepted';
  const changes = changedTools === 'flag' ? 'reported only' : 'blocked until accepted';
  const rule =
    news === changes
      ? `New and changed definitions are ${news}.`
      : `New definitions are ${news}; changed ones are ${changes}.`;
  return html`<p class="help">${rule} <a href="${policy}">Change this</a></p>`;
}

function reviewForm(data: ToolReviewPageData, frame: Frame): Html {
  const { items, total, all, action, state } = data;
  const verbs = verbsIn(state);
  const several = html`<div class="actions">
<button name="decide" value="accept">Accept selected</button>
${verbs.rejects && html`<button class="danger" name="decide" value="reject">Reject selected</button>`}
<button name="decide" value="accept:all">${total === 1 ? 'Accept it' : `Accept all ${total}`}</button>
${verbs.rejects && total > 1 && html`<button class="danger" name="decide" value="reject:all">Reject all ${total}</button>`}
</div>`;
  // The Enter key submits the first button, which decides nothing.
  const fields = html`<button class="unseen" tabindex="-1" aria-hidden="true">Nothing</button>
${hiddenField('all', all)}
${verbs.accepts && items.length > 2 && several}
<div class="reviewed">
${items.map((item, place) => reviewedItem(item, place, data))}
</div>
${verbs.accepts && several}`;
  return postForm(frame, { action }, fields);
}

/** A definition that is already offered can be accepted, but not rejected. To block it, an administrator has to hide it. */
function verbsIn(state: State) {
  return { accepts: state !== 'accepted', rejects: state === 'waiting' };
}

function reviewedItem(item: ReviewItem, place: number, { state, now }: ToolReviewPageData): Html {
  const { kind, name, digest, text, href, tool, warnings, content, decided } = item;
  const id = `item-${place}`;
  const verbs = verbsIn(state);
  const key = `${kind}:${digest}:${encodeURIComponent(name)}`;
  const heading = html`<h2 id="${id}-heading">
<a href="${href}"><code dir="auto">${text}</code></a>
${kind !== 'tool' && html`<span class="soft">${kindWords[kind]}</span>`}
${[...stateBadges(tool), ...hintBadge(tool)].map((one) => html` ${badge(one)}`)}
</h2>`;
  const decide = html`<div class="actions">
<button name="decide" value="accept:${place}" aria-label="Accept ${text}">Accept</button>
${verbs.rejects && html`<button class="danger" name="decide" value="reject:${place}" aria-label="Reject ${text}">Reject</button>`}
</div>`;
  const isShort = state === 'waiting' || state === 'rejected';
  return html`<section class="card review" aria-labelledby="${id}-heading">
<div class="card-head">
<div class="option">
${verbs.accepts && html`${hiddenField(`item.${place}`, key)}<input type="checkbox" name="chosen.${place}" id="${id}-chosen" aria-label="Choose ${text}">`}
${heading}
</div>
${verbs.accepts && decide}
</div>
<p class="help">${historyWords(item, now)}</p>
${warningList(warnings)}
${tool.correction && html`<p class="help">Assistants see your <a href="${href}">correction</a> instead of parts of this.</p>`}
${isShort ? content : html`<details><summary>Definition</summary>${content}</details>`}
${decided && state === 'rejected' && html`<p class="help">Rejected by ${decided.by}.</p>`}
</section>`;
}

function historyWords({ tool, decided }: ReviewItem, now: EpochSeconds): Html {
  const { changed, acceptedAt, status } = tool;
  if (status === 'accepted' && decided) {
    return html`Accepted by <bdi>${decided.by}</bdi> ${relativeTime(decided.at, now)}`;
  }
  if (status === 'rejected' && decided) {
    return html`Rejected by <bdi>${decided.by}</bdi> ${relativeTime(decided.at, now)}`;
  }
  if (status === 'offered') {
    return html`First listed ${relativeTime(acceptedAt ?? now, now)}, not reviewed`;
  }
  const since = relativeTime(changed?.changedAt ?? now, now);
  if (status === 'new') return html`First listed ${since}`;
  const before = decided
    ? html`. The previous definition was accepted by <bdi>${decided.by}</bdi> ${relativeTime(decided.at, now)}.`
    : '. The previous definition was offered without review.';
  return html`Changed ${since}${before}`;
}

function warningList(warnings: readonly DefinitionWarning[]): Html | false {
  if (warnings.length === 0) return false;
  return html`<ul class="warnings">
${warnings.map(
  ({ isNote, where, detail }) =>
    html`<li>${badge(isNote ? { text: 'Note', tone: 'plain' } : { text: 'Warning', tone: 'bad' })} <code dir="auto">${where}</code> ${detail}</li>`,
)}
</ul>`;
}
