import type { EpochSeconds } from '#model/clock';
import {
  csrfField,
  errorOf,
  errorSummary,
  newPasswordFields,
  postForm,
  textField,
  type FieldError,
} from './forms.ts';
import { html, type Html } from './html.ts';
import { layout, statusNotice, type Frame } from './layout.ts';
import { relativeTime } from './tables.ts';
import { type Titled, titleMarkup } from './titles.ts';

/** The person's memberships, sessions, and ways to sign in. */
interface AccountPageData {
  readonly now: EpochSeconds;
  readonly email: string;
  readonly memberships: readonly { readonly organization: Titled; readonly role: string }[];
  /** Whether the person signed in recently, and so may add ways to sign in. */
  readonly isRecent: boolean;
  readonly hasPassword: boolean;
  readonly sessions: readonly AccountSession[];
  /** `undefined` where passkeys cannot work: under an IP address. */
  readonly passkeys: readonly AccountPasskey[] | undefined;
  /** The applications that act for the person; `undefined` hides this section. */
  readonly grants: readonly AccountGrant[] | undefined;
  readonly secondFactor: SecondFactorState;
  readonly provider: { readonly name: string; readonly isLinked: boolean } | undefined;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
}

/** A browser that the person is signed in with. */
interface AccountSession {
  readonly id: string;
  /** The browser and the system, in words. */
  readonly browser: string;
  readonly address: string;
  readonly createdAt: EpochSeconds;
  readonly usedAt: EpochSeconds;
  /** Whether this session requested the page. */
  readonly isThis: boolean;
}

/** A passkey as its owner sees it. */
interface AccountPasskey {
  readonly id: string;
  readonly name: string;
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
}

/** One application that acts for the person. */
export interface AccountGrant {
  readonly id: string;
  /** The application's name, which its developer chose. */
  readonly client: string;
  /** The server and the computer, which tell the grants of an application apart. */
  readonly access: string;
  /** The computer that it runs on, if Latchkey's proxy named one. */
  readonly device: { readonly id: string; readonly name: string } | undefined;
  readonly organization: Titled;
  readonly server: Titled;
  /** The permissions, in words. */
  readonly scopes: readonly string[];
  /** The tools to which it is limited, in words; `undefined` if it has no limit. */
  readonly tools: string | undefined;
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
  /** Whether an identity provider of the organization allowed it, in place of the person. */
  readonly isByProvider: boolean;
  /** Whether the person or an administrator withdrew it, so that the provider cannot grant it again. */
  readonly isWithdrawn: boolean;
}

interface SecondFactorState {
  readonly isOn: boolean;
  /** Whether this browser proved two factors. */
  readonly isProved: boolean;
  readonly recoveryCodes: number;
  /** Organizations that require a second factor, which this browser has not proved. */
  readonly requiredBy: readonly string[];
}

/** The account page: the person's details, grants, sessions and ways to sign in. */
export function accountPage(data: AccountPageData, frame: Frame): Html {
  const title = data.errors.length > 0 ? 'Not changed' : 'Your account';
  const content = html`<div>
<h1>Your account</h1>
<p class="lead" dir="auto">${data.email}</p>
</div>
${statusNotice(data.notice)}
${errorSummary(data.errors)}
${organizationsSection(data)}
${grantsSection(data, frame)}
${devicesSection(data)}
${passkeysSection(data, frame)}
${passwordSection(data, frame)}
${secondFactorSection(data, frame)}
<section class="section" aria-labelledby="tokens-heading">
<h2 id="tokens-heading">Personal tokens</h2>
<p class="help">A program uses a personal token to call the admin API with your permissions.</p>
<p><a class="button" href="/account/tokens">Personal tokens</a></p>
</section>
${providerSection(data, frame)}
${sessionsSection(data, frame)}`;
  return layout({ title, width: 'text' }, frame, content);
}

function organizationsSection({ memberships }: AccountPageData): Html {
  return html`<section class="section" aria-labelledby="organizations-heading">
<h2 id="organizations-heading">Organizations</h2>
<ul class="rows">
${memberships.map(
  ({ organization, role }) =>
    html`<li>
<div dir="auto"><a href="/dashboard/${organization.name}">${titleMarkup(organization)}</a></div>
<span class="badge">${role}</span>
</li>`,
)}
${memberships.length === 0 && html`<li>You do not belong to an organization. Ask an owner to invite you.</li>`}
</ul>
</section>`;
}

/** The applications that act for the person. Withdrawing is a POST. */
function grantsSection({ grants, now }: AccountPageData, frame: Frame): Html | undefined {
  if (!grants) return undefined;
  return html`<section class="section" aria-labelledby="grants-heading">
<h2 id="grants-heading">Applications</h2>
<p class="help">Applications that act for you, because you or your organization allowed it. When you withdraw your consent, the application loses access immediately.</p>
<ul class="rows">
${grants.map(
  ({ id, client, access, device, organization, server, scopes, createdAt, lastUsedAt, ...grant }) =>
    html`<li>
<div>
<strong dir="auto">${client}</strong>
<p>${titleMarkup(server)} <span class="soft">in</span> ${titleMarkup(organization)}${device && html` <span class="soft">on</span> <bdi>${device.name}</bdi>`}</p>
<p class="help">${scopes.join('; ')}</p>
${grant.tools !== undefined && html`<p class="help">${grant.tools}</p>`}
<p class="help">
${grant.isByProvider ? 'Allowed by your organization' : 'Allowed'}
${relativeTime(createdAt, now)}${lastUsedAt !== undefined && html`, last used ${relativeTime(lastUsedAt, now)}`}
</p>
</div>
${
  grant.isWithdrawn
    ? postForm(
        frame,
        { action: `/account/grants/${id}/allow` },
        html`<button aria-label="Allow ${client} again: ${access}">Allow again</button>`,
      )
    : html`<div class="actions">
<a class="button" href="/dashboard/${organization.name}/applications/${id}/tools" aria-label="Change tools of ${client}: ${access}">Change tools</a>
${postForm(
  frame,
  { action: `/account/grants/${id}/withdraw` },
  html`<button class="danger" aria-label="Withdraw from ${client}: ${access}">Withdraw</button>`,
)}
</div>`
}
</li>`,
)}
${grants.length === 0 && html`<li>No applications yet. An application asks for your consent when you first connect it.</li>`}
</ul>
</section>`;
}

/** The computers on which applications act for the person. A dashboard page signs a computer out of all organizations. */
function devicesSection({ grants = [] }: AccountPageData): Html | false {
  const active = grants.filter(({ device, isWithdrawn }) => device && !isWithdrawn);
  const devices = Map.groupBy(active, ({ device }) => device?.id ?? '');
  if (devices.size === 0) return false;
  const names = [...devices.values()].map(([first]) => first?.device?.name);
  const isShared = (name?: string) => names.indexOf(name) !== names.lastIndexOf(name);
  return html`<section class="section" aria-labelledby="devices-heading">
<h2 id="devices-heading">Devices</h2>
<p class="help">When you sign out a device, all applications that run on it through Latchkey lose access immediately.</p>
<ul class="rows">
${[...devices].map(([id, [first, ...others]]) => {
  const { device, organization } = first ?? {};
  const count = others.length === 0 ? 'One application' : `${others.length + 1} applications`;
  return html`<li>
<div>
<strong dir="auto">${device?.name}</strong>
<p class="help">${count} of the list above${isShared(device?.name) && html`, ID ${id}`}</p>
</div>
<a class="button danger" href="/dashboard/${organization?.name}/applications/devices/${id}/sign-out" aria-label="Sign out ${device?.name}">Sign out</a>
</li>`;
})}
</ul>
</section>`;
}

/** Removing a passkey works without scripts; adding one does not. */
function passkeysSection(
  { passkeys, isRecent, now }: AccountPageData,
  frame: Frame,
): Html | undefined {
  if (!passkeys) return undefined;
  return html`<section class="section narrow" aria-labelledby="passkeys-heading">
<h2 id="passkeys-heading">Passkeys</h2>
<p class="help">Sign in with your fingerprint, your face or the PIN of your device instead of your password.</p>
<ul class="rows">
${passkeys.map(
  ({ id, name, createdAt, lastUsedAt }) =>
    html`<li>
<div>
<strong dir="auto">${name}</strong>
<p class="help">
Added ${relativeTime(createdAt, now)},
${lastUsedAt ? html`last used ${relativeTime(lastUsedAt, now)}` : 'never used'}
</p>
</div>
${postForm(frame, { action: `/account/passkeys/${id}/remove` }, html`<button class="danger" aria-label="Remove ${name}">Remove</button>`)}
</li>`,
)}
${passkeys.length === 0 && html`<li>No passkeys yet.</li>`}
</ul>
<noscript><p class="help">To add a passkey, turn on JavaScript in this browser.</p></noscript>
${isRecent ? newPasskeyForm(frame) : html`<p data-passkeys hidden>${signInAgain('add a passkey')}</p>`}
</section>`;
}

/** `scripts/passkeys.ts` shows and sends this form. */
function newPasskeyForm(frame: Frame): Html {
  return html`<form class="inline" data-passkeys hidden>
${csrfField(frame)}
${textField({
  name: 'passkey-name',
  label: 'Passkey name',
  value: 'Passkey',
  attributes: html`maxlength="60"`,
  help: 'Helps you tell your passkeys apart. Example: Laptop',
})}
<div class="actions"><button type="submit" data-passkey="add">Add passkey</button></div>
<p class="error" data-passkey-error role="alert" hidden></p>
</form>`;
}

function passwordSection({ hasPassword, email, errors }: AccountPageData, frame: Frame): Html {
  const fields = html`<input type="hidden" name="email" value="${email}" autocomplete="username">
${textField({ name: 'current', label: 'Current password', type: 'password', autocomplete: 'current-password', error: errorOf(errors, 'current') })}
${newPasswordFields({ error: errorOf(errors, 'password') })}
<div class="actions"><button>Change password</button></div>`;
  const change = html`<p class="help">Changing your password signs you out of all other browsers and ends the access of all applications.</p>
${postForm(frame, { action: '/account/password', novalidate: true }, fields)}`;
  const none = html`<p class="help">You have no password. Ask the operator of this server for a link to set one.</p>`;
  return html`<section class="section narrow" aria-labelledby="password-heading">
<h2 id="password-heading">Password</h2>
${hasPassword ? change : none}
</section>`;
}

function secondFactorSection(data: AccountPageData, frame: Frame): Html {
  return html`<section class="section" id="second-factor" aria-labelledby="second-factor-heading">
<h2 id="second-factor-heading">Second factor</h2>
${data.secondFactor.isOn ? secondFactorOn(data, frame) : secondFactorOff(data, frame)}
</section>`;
}

function secondFactorOn({ secondFactor, isRecent }: AccountPageData, frame: Frame): Html {
  const { recoveryCodes, isProved } = secondFactor;
  const left = recoveryCodes === 1 ? 'One recovery code is' : `${recoveryCodes} recovery codes are`;
  const renew = html`<button>Create new recovery codes</button>`;
  const remove = html`<button class="danger">Turn off the authenticator app</button>`;
  const actions = html`<div class="actions">
${postForm(frame, { action: '/account/second-factor/recovery-codes' }, renew)}
${postForm(frame, { action: '/account/second-factor/remove' }, remove)}
</div>`;
  return html`<p class="help">After your password, you enter a code from your authenticator app. ${left} left.</p>
${isRecent && isProved ? actions : html`<p>${signInAgain('change this')}</p>`}`;
}

function secondFactorOff({ secondFactor, isRecent }: AccountPageData, frame: Frame): Html {
  const { requiredBy } = secondFactor;
  const setUp = html`<div class="actions"><button>Set up an authenticator app</button></div>`;
  return html`<p class="help">After your password, you enter a code from an app on your phone. A passkey needs no code.</p>
${requiredBy.length > 0 && html`<p class="notice">Required by <span dir="auto">${requiredBy.join(', ')}</span>. You cannot open its pages until you set one up.</p>`}
${isRecent ? postForm(frame, { action: '/account/second-factor' }, setUp) : html`<p>${signInAgain('set up an authenticator app')}</p>`}`;
}

function providerSection({ provider, isRecent }: AccountPageData, frame: Frame): Html | undefined {
  if (!provider) return undefined;
  const unlink = html`<div class="actions"><button class="danger">Unlink account</button></div>`;
  const link = html`<div class="actions"><button>Link account</button></div>`;
  return html`<section class="section" aria-labelledby="provider-heading">
<h2 id="provider-heading">${provider.name}</h2>
${
  provider.isLinked
    ? html`<p class="help">Your account is linked. You can sign in with it.</p>
${isRecent ? postForm(frame, { action: '/account/provider/unlink' }, unlink) : html`<p>${signInAgain('unlink the account')}</p>`}`
    : html`<p class="help">Link your account to sign in with it.</p>
${isRecent ? postForm(frame, { action: '/account/provider' }, link) : html`<p>${signInAgain('link your account')}</p>`}`
}
</section>`;
}

function sessionsSection({ sessions, now }: AccountPageData, frame: Frame): Html {
  const endOthers = html`<div class="actions"><button class="danger">Sign out all others</button></div>`;
  return html`<section class="section" aria-labelledby="sessions-heading">
<h2 id="sessions-heading">Active sessions</h2>
<ul class="rows">
${sessions.map(
  ({ id, browser, address, createdAt, usedAt, isThis }) =>
    html`<li>
<div>
<strong>${browser}</strong>${isThis && html` <span class="badge">this browser</span>`}
<p class="help">
${address}, signed in ${relativeTime(createdAt, now)}, last seen
${relativeTime(usedAt, now)}
</p>
</div>
${!isThis && postForm(frame, { action: `/account/sessions/${id}/end` }, html`<button class="danger" aria-label="Sign out ${browser} at ${address}">Sign out</button>`)}
</li>`,
)}
</ul>
${sessions.length > 1 && postForm(frame, { action: '/account/sessions/end-others' }, endOthers)}
</section>`;
}

/** A link to sign in again, for actions that require a recent sign-in. */
function signInAgain(purpose: string): Html {
  return html`<a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to ${purpose}</a>`;
}

/** The secret for the authenticator app, and the errors in the code that was entered. */
interface EnrolPageData {
  readonly email: string;
  /** The QR code as an SVG image. */
  readonly qr: Html;
  /** The same secret to type, in groups of four. */
  readonly secret: string;
  readonly errors: readonly FieldError[];
}

/** Shows the secret for an authenticator app and asks for the first code. */
export function enrolPage({ qr, secret, errors }: EnrolPageData, frame: Frame): Html {
  const title = errors.length > 0 ? 'Not set up yet' : 'Set up an authenticator app';
  const code = textField({
    name: 'code',
    label: 'Code from the app',
    autocomplete: 'one-time-code',
    error: errors[0]?.message,
    focus: errors.length === 0,
    attributes: html`inputmode="numeric" spellcheck="false"`,
    help: 'Six digits. The code changes every 30 seconds.',
  });
  const fields = html`${code}
<div class="actions"><button class="primary">Turn on</button> <a class="button" href="/account">Cancel</a></div>`;
  const content = html`<div>
<h1>Set up an authenticator app</h1>
<p class="lead">Scan this QR code with the app on your phone, then enter the code that the app shows.</p>
</div>
${errorSummary(errors)}
<figure class="qr" role="img" aria-label="QR code for an authenticator app">${qr}</figure>
<div class="field">
<p class="label">Or enter this key in the app</p>
<p><code>${secret}</code></p>
</div>
${postForm(frame, { action: '/account/second-factor/confirm', novalidate: true }, fields)}
<p class="help">Turning on the authenticator app signs you out of all other browsers.</p>`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The codes, shown only in the response that creates them. */
export interface RecoveryCodesPageData {
  readonly codes: readonly string[];
  /** Whether the app was just set up, rather than the codes renewed. */
  readonly isNew: boolean;
}

/** Shows recovery codes once. */
export function recoveryCodesPage({ codes, isNew }: RecoveryCodesPageData, frame: Frame): Html {
  const content = html`<div>
<h1>Recovery codes</h1>
<p class="lead">${isNew && 'The authenticator app is on. '}Store these codes where you can find them without your phone. Each code replaces the app once.</p>
</div>
<div class="codes">
<ul>
${codes.map((code) => html`<li><code>${code}</code></li>`)}
</ul>
<button type="button" data-copy="${codes.join('\n')}" aria-label="Copy the recovery codes" hidden>Copy</button>
</div>
<p class="notice" role="status">
You won’t see these codes again.${!isNew && ' The previous codes no longer work.'}
</p>
<form method="get" action="/account">
<div class="actions"><button class="primary">I have stored them</button></div>
</form>`;
  return layout({ title: 'Recovery codes', width: 'form' }, frame, content);
}
