import type { EpochSeconds } from '#model/clock';
import { formActions, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Badge, layout, pageHeading, type Frame, type Link } from '#web/layout';
import { secretPanel, type OneTimeSecret } from '#web/one-time-secret';
import { relativeTime } from '#web/tables';
import { renewedPart } from './lists.ts';

/**
 * Describes the role of an active credential in a rotation, given the hint of the credential that it replaces or that
 * replaces it.
 */
export function rotationOf({
  what,
  replaces,
  replacedBy,
  expires,
}: {
  /** What is rotated, such as `key`. */
  readonly what: string;
  readonly replaces: string | undefined;
  readonly replacedBy: string | undefined;
  /** Whether it has an expiry date. */
  readonly expires: boolean;
}): { readonly badge: Badge; readonly words: string } | undefined {
  if (replacedBy !== undefined) {
    const end = expires ? 'until you revoke it or it expires' : 'until you revoke it';
    return {
      badge: { text: `Rotating: old ${what}`, tone: 'care' },
      words: `Replaced by ${replacedBy}. Works ${end}.`,
    };
  }
  if (replaces === undefined) return undefined;
  return { badge: { text: `Rotating: new ${what}`, tone: 'good' }, words: `Replaces ${replaces}.` };
}

/**
 * Returns a function that describes the role of a credential in a rotation in which the newest active one replaces all
 * others.
 */
export function rotationsAmong<
  One extends {
    readonly hint: string;
    readonly createdAt: EpochSeconds;
    readonly expiresAt: EpochSeconds | null;
  },
>(what: string, active: readonly One[]): (one: One) => ReturnType<typeof rotationOf> {
  const [newest, next] = active.toSorted((a, b) => b.createdAt - a.createdAt);
  return (one) => {
    if (!active.includes(one)) return undefined;
    const isNewest = one === newest;
    return rotationOf({
      what,
      replaces: isNewest ? next?.hint : undefined,
      replacedBy: isNewest ? undefined : newest?.hint,
      expires: one.expiresAt !== null,
    });
  };
}

/** A credential that the new one replaces. */
interface Replaced {
  readonly hint: string;
  readonly lastUsedAt: EpochSeconds | null;
  /** The page that confirms its revocation; `undefined` if it is no longer active. */
  readonly revoke: string | undefined;
}

/** The new credential, and those that it replaces. */
interface RotationPageData {
  readonly heading: string;
  /** What is rotated, such as `key`. */
  readonly what: string;
  /** Where to put the new one, in a sentence. */
  readonly update: string;
  /** How to verify that it is used, in a sentence. */
  readonly firstUse: string;
  /** Set only in the response that created it; later views of the page show the hint. */
  readonly secret: OneTimeSecret | undefined;
  readonly made: {
    readonly hint: string;
    readonly createdAt: EpochSeconds;
    readonly lastUsedAt: EpochSeconds | null;
  };
  readonly replaced: readonly Replaced[];
  /** The path of this page without the secret. */
  readonly here: string;
  readonly back: Link;
  readonly now: EpochSeconds;
}

/** The four steps of a rotation on one page: new, update, verify, revoke. Old and new are both active until the last step. */
export function rotationPage(data: RotationPageData, frame: Frame): Html {
  const { heading, what, update, secret, made, here, back, now } = data;
  const title = secret ? `${secret.label}, shown only once` : heading;
  const hintNote = html`<p><code>${made.hint}</code>, created ${relativeTime(made.createdAt, now)}. You won’t see this ${what} again. If you lose it, create a new one.</p>`;
  const content = html`${pageHeading({ heading, lead: `Both ${what}s work until you revoke the old one.` })}
<ol class="steps">
<li class="done">
<h2>New ${what}</h2>
${secret ? secretPanel(secret) : hintNote}
</li>
<li>
<h2>Update</h2>
<p>${update}</p>
</li>
</ol>
${renewedPart(here, verifyAndRevoke(data))}
<p><a class="button" href="${back.href}">${back.text}</a></p>`;
  return layout({ title, width: 'text' }, frame, content);
}

function verifyAndRevoke(data: RotationPageData): Html {
  const { what, firstUse, made, replaced, here, now } = data;
  const verified =
    made.lastUsedAt !== null &&
    html`<p><strong>The new ${what} works.</strong> It was used ${relativeTime(made.lastUsedAt, now)}.</p>`;
  const unverified = html`<p>The new ${what} has not been used yet. ${firstUse}</p>
<p><a href="${here}">Check again</a></p>`;
  const isRevoked = replaced.every(({ revoke }) => !revoke);
  return html`<ol class="steps going-on">
<li class="${verified && 'done'}" data-row id="row-verify">
<h2>Verify</h2>
${verified || unverified}
</li>
<li class="${isRevoked && 'done'}" data-row id="row-revoke">
<h2>Revoke the old one</h2>
${replaced.length === 0 && html`<p>There is no other active ${what}.</p>`}
<ul class="rows">
${replaced.map((one) => replacedRow(one, data))}
</ul>
</li>
</ol>`;
}

function replacedRow({ hint, lastUsedAt, revoke }: Replaced, data: RotationPageData): Html {
  const { made, now } = data;
  const isUsedSince =
    made.lastUsedAt !== null && lastUsedAt !== null && lastUsedAt > made.lastUsedAt;
  const use = !revoke
    ? 'No longer works.'
    : lastUsedAt
      ? html`Last used
${relativeTime(lastUsedAt, now)}.${isUsedSince && ' An application still uses it.'}`
      : 'Never used.';
  return html`<li>
<div>
<code>${hint}</code>
<p class="help">${use}</p>
</div>
${revoke && html`<a class="button danger" href="${revoke}" data-question aria-label="Revoke ${hint}">Revoke</a>`}
</li>`;
}

/** The credential to rotate; `action` creates the new one, `cancel` leads back. */
interface RotationStartData {
  readonly heading: string;
  readonly what: string;
  readonly update: string;
  readonly action: string;
  readonly cancel: string;
}

/** Explains a rotation before its first step. */
export function rotationStartPage(data: RotationStartData, frame: Frame): Html {
  const { heading, what, update, action, cancel } = data;
  const lead = `Nothing stops working yet. Both ${what}s work until you revoke the old one.`;
  const content = html`${pageHeading({ heading, lead })}
<ol class="steps">
<li>
<h2>New ${what}</h2>
<p>The next page shows it once. It has the same permissions as the old one.</p>
</li>
<li>
<h2>Update</h2>
<p>${update}</p>
</li>
<li>
<h2>Verify</h2>
<p>The next page also shows when the new ${what} is first used.</p>
</li>
<li>
<h2>Revoke the old one</h2>
<p>Do this once no application uses the old ${what}.</p>
</li>
</ol>
${postForm(frame, { action }, formActions(`Create new ${what}`, cancel))}`;
  return layout({ title: heading, width: 'text' }, frame, content);
}
