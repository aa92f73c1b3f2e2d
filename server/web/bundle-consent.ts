import { storedSentence } from '#model/call-contents';
import { mostResources } from '#model/authorization-request';
import { scopeSentence, type Scope, type ScopeSentence } from '#model/scopes';
import type {
  BundleChoice,
  BundleProblem,
  BundleQuestion,
  BundleRefusal,
  ChosenServers,
} from '#oauth/bundle-consent';
import type { Form } from '#oauth/forms';
import { partsOf } from '#model/slug';
import { errorSummary, errorText, hiddenField, postForm } from './forms.ts';
import { displayName, html, type Html } from './html.ts';
import { companySignInPath, isLongHeading, layout, type Frame } from './layout.ts';
import { titleText } from './titles.ts';
import { readingWords, type UsableTools } from './usable-tools.ts';

export interface BundlePageData {
  /** The name of the application; `via` is ` (via …)` with the client through which it asks, or empty. */
  readonly name: string;
  readonly via: string;
  /** Whether the application chose the name itself. */
  readonly isClaimed: boolean;
  /** Describes the address to which the answer goes. */
  readonly destination: Html;
  readonly question: BundleQuestion;
  /** The tools that can be limited to reading, by server id. */
  readonly usable: ReadonlyMap<string, UsableTools>;
  readonly email: string;
  /** The path of the request, for people who sign in with a different account. */
  readonly back: string;
}

const field = 'server';

const readOnlyField = 'read-only';

/** The servers that a person ticked in a submitted form. */
export function chosenServers(form: Form): ChosenServers {
  const idsOf = (start: string) =>
    [...form.keys()].flatMap((name) => (name.startsWith(start) ? [name.slice(start.length)] : []));
  return {
    chosen: new Set(idsOf(`${field}.`)),
    readOnly: new Set(idsOf(`${readOnlyField}.`)),
  };
}

/** Asks a person which servers an application may use. */
export function bundleConsentPage(data: BundlePageData, frame: Frame): Html {
  const { name, via, isClaimed, question, email, back } = data;
  const { choices, refused, request, requestId, problem } = question;
  const isLong = isLongHeading(`Connect ${name}${via} to your servers?`);
  const until = new Date(question.until * 1000);
  const scopes = scopesAnywhere(choices);
  const errors = problem === undefined ? [] : [{ field, message: problems[problem] }];
  const form = html`${hiddenField('request', requestId)}
${hiddenField('back', back)}
${errorSummary(errors)}
${serverBoxes(
  choices.map((choice) => optionOf(choice, scopes, data.usable)),
  errors[0]?.message,
)}
${question.isCut && html`<p class="help">Not all servers that you may use fit on this page. An application can ask for another one by its own address.</p>`}
${refused.length > 0 && notNow(refused, back)}
${scopeList(scopes)}
${request.listsServers && html`<p class="help">It also sees which other servers of these organizations you may use, so that it can tell you about them. It cannot use them unless you choose them here.</p>`}
<p>It acts as <strong dir="auto">${email}</strong> until <time datetime="${until.toISOString()}">${until.toUTCString().slice(5, 16)}</time>, unless you withdraw access earlier on <a href="/account">your account page</a>.</p>
<div class="actions even"><button class="primary" name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></div>`;
  const signOut = html`${hiddenField('next', back)}
<p class="help">Not you? <button class="quiet">Sign in with a different account</button></p>`;
  const content = html`<div>
<h1${isLong && html` class="long"`}>Connect <bdi>${name}</bdi>${via} to your servers?</h1>
${isClaimed && html`<p class="help">The application gave this name; Latchkey cannot verify it.</p>`}
</div>
${data.destination}
${postForm(frame, { action: '/oauth/consent', novalidate: true }, form)}
${postForm(frame, { action: '/sign-out' }, signOut)}`;
  return layout({ title: `Connect ${name}${via}?`, width: 'form' }, frame, content);
}

const problems: Readonly<Record<BundleProblem, string>> = {
  'none-chosen': 'Choose at least one server, or deny.',
  'too-many': `Choose at most ${mostResources} servers.`,
};

function scopesAnywhere(choices: readonly BundleChoice[]): Scope[] {
  return [...new Set(choices.flatMap(({ terms }) => terms.scopes))];
}

interface ServerOption {
  readonly id: string;
  readonly text: string;
  readonly help: string;
  readonly isChosen: boolean;
  /** Says what the application can use if it is limited to reading; `undefined` where nothing can be limited. */
  readonly reading: string | undefined;
  readonly isReadOnly: boolean;
}

/** A checkbox for each server and, below it, one that limits the application to reading there. */
function serverBoxes(options: readonly ServerOption[], error: string | undefined): Html {
  const limit = ({ id, text, reading, isReadOnly }: ServerOption) =>
    html`<div class="option">
<input type="checkbox" name="${readOnlyField}.${id}" id="${readOnlyField}-${id}" aria-describedby="${readOnlyField}-${id}-help"${isReadOnly && html` checked`}>
<div>
<label for="${readOnlyField}-${id}">Allow only reading<span class="unseen"> at ${text}</span></label>
<p class="help" id="${readOnlyField}-${id}-help">${reading}</p>
</div>
</div>`;
  const isAnyLimited = options.some(({ reading }) => reading !== undefined);
  return html`<fieldset class="options${error && ' wrong'}" id="${field}" tabindex="-1"${error && html` aria-describedby="${field}-error"`}>
<legend>Servers that it may use</legend>
${errorText(field, error)}
${options.map(
  (option) => html`<div class="option">
<input type="checkbox" name="${field}.${option.id}" id="${field}-${option.id}" value="${option.id}" aria-describedby="${field}-${option.id}-help"${option.isChosen && html` checked`}>
<div>
<label for="${field}-${option.id}">${option.text}</label>
<p class="help" id="${field}-${option.id}-help">${option.help}</p>
${option.reading !== undefined && limit(option)}
</div>
</div>`,
)}
${isAnyLimited && html`<p class="help">You can change later, for each server, what the application can use: on your account page.</p>`}
</fieldset>`;
}

function optionOf(
  { serverPath, terms, description, missing, isTicked, isReadOnly }: BundleChoice,
  anywhere: readonly Scope[],
  usable: ReadonlyMap<string, UsableTools>,
): ServerOption {
  const { organization, server } = partsOf(serverPath);
  const organizationTitle = titleText({ name: organization, title: terms.titles.organization });
  const here = terms.scopes.map((scope) => lowered(scopeSentence(scope).text));
  const sentences = [
    ended(displayName(description, 240)),
    organizationTitle === organization ? `${serverPath}.` : `${organizationTitle} (${serverPath}).`,
    missing === 'account' && 'It needs your own account: your assistant shows how to connect it.',
    missing === 'key' && 'It needs your own key: your assistant shows where to enter it.',
    terms.scopes.length < anywhere.length && `Your role allows here only: ${here.join('; ')}.`,
    storedSentence(organizationTitle, terms.contents),
  ];
  const limited = usable.get(terms.serverId);
  return {
    id: terms.serverId,
    text: titleText({ name: server, title: terms.titles.server }),
    help: sentences.filter(Boolean).join(' '),
    isChosen: isTicked,
    reading: limited && readingWords(limited),
    isReadOnly,
  };
}

function ended(text: string): string {
  return text === '' || /[.!?]$/.test(text) ? text : `${text}.`;
}

function lowered(text: string): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}`;
}

function scopeList(scopes: readonly Scope[]): Html {
  return html`<section class="group" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">At each of them, it will be able to</h2>
${scopeRows(scopes.map(scopeSentence))}
</section>`;
}

/** A list of scopes, with their risks. */
export function scopeRows(scopes: readonly ScopeSentence[]): Html {
  return html`<ul class="rows">
${scopes.map(
  ({ text, risk }) =>
    html`<li>
<div>${text}${risk && html`<p class="help">${risk}</p>`}</div>
${risk && html`<span class="badge care">Sensitive</span>`}
</li>`,
)}
</ul>`;
}

function companySignIn(serverPath: string, back: string): string {
  const { organization } = partsOf(serverPath);
  return `${companySignInPath}?organization=${organization}&next=${encodeURIComponent(back)}`;
}

const reasons: Readonly<Record<BundleRefusal['why'], string>> = {
  stranger: 'it does not exist, or you have no access to it',
  closed: 'its organization accepts only applications that its administrators created',
  'proxy-closed': 'its organization does not let members connect Latchkey’s own proxy',
  nothing: 'your role there allows nothing that the application requests',
  'second-factor': 'its organization requires a second factor: set one up on your account page',
  'single-sign-on': 'its organization requires that you sign in with your work account',
};

function notNow(refused: readonly BundleRefusal[], back: string): Html {
  return html`<section class="group" aria-labelledby="refused-heading">
<h2 id="refused-heading">You cannot choose now</h2>
<ul class="rows">
${refused.map(
  ({ serverPath, why }) => html`<li>
<div><code>${serverPath}</code><p class="help">${reasons[why]}.</p></div>
${why === 'single-sign-on' && html`<a href="${companySignIn(serverPath, back)}">Sign in there</a>`}
</li>`,
)}
</ul>
</section>`;
}
