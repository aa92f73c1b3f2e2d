import {
  errorOf,
  errorSummary,
  hiddenField,
  newPasswordFields,
  postForm,
  textField,
  type FieldError,
} from './forms.ts';
import { html, type Html } from './html.ts';
import { companySignInPath, layout, statusNotice, type Frame } from './layout.ts';
import { type Titled, titleMarkup, titleText } from './titles.ts';

/** The entered values, their errors, and the available ways to sign in. */
interface SignInPageData {
  /** The entered address. The entered password is never shown again. */
  readonly email: string;
  /** Where to go afterwards, a path of this server. */
  readonly next: string;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  /** Whether passkeys work at this address. */
  readonly passkeys: boolean;
  /** The name of the identity provider, where there is one. */
  readonly provider: string | undefined;
  /** Whether any organization has an identity provider of its own. */
  readonly company: boolean;
  /** The organization that the person wants to go to, if that is known. */
  readonly organization: string | undefined;
}

/** Signs in by password, passkey or the identity provider. */
export function signInPage(data: SignInPageData, frame: Frame): Html {
  const { email, next, errors, passkeys, provider, company, organization } = data;
  const place = organization === undefined ? '' : `organization=${organization}&`;
  const title = errors.length > 0 ? 'Not signed in' : 'Sign in';
  const passwordFields = html`${hiddenField('next', next)}
${textField({ name: 'email', label: 'E-mail', type: 'email', value: email, autocomplete: 'username webauthn', focus: errors.length === 0 })}
${textField({ name: 'password', label: 'Password', type: 'password', autocomplete: 'current-password' })}
<button class="primary">Sign in</button>`;
  const content = html`<h1>Sign in</h1>
${statusNotice(data.notice)}
${errorSummary(errors)}
${postForm(frame, { action: '/sign-in', novalidate: true }, passwordFields)}
${
  (passkeys || provider || company) &&
  html`<div class="others"${!provider && !company && html` data-passkeys hidden`}>
<p class="or">or</p>
${
  passkeys &&
  html`<button type="button" data-passkey="sign-in" hidden>Sign in with a passkey</button>
<p class="error" data-passkey-error role="alert" hidden></p>`
}
${
  provider &&
  postForm(
    frame,
    { action: '/sign-in/provider' },
    html`${hiddenField('next', next)} <button>Sign in with ${provider}</button>`,
  )
}
${company && html`<a class="button" href="${companySignInPath}?${place}next=${encodeURIComponent(next)}">Sign in with your work account</a>`}
</div>`
}
<p class="help">Forgot your password? The operator of this server can create a link to set a new one.</p>`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The entered values, and the providers to choose from. */
export interface CompanySignInData {
  /** An e-mail address or the name of an organization. */
  readonly who: string;
  /** Where to go afterwards, a path of this server. */
  readonly next: string;
  readonly providers: readonly { readonly id: string; readonly name: string }[];
  readonly errors: readonly FieldError[];
}

/** Finds the identity provider of an organization, and offers a choice if it has several. */
export function companySignInPage(data: CompanySignInData, frame: Frame): Html {
  const { who, next, providers, errors } = data;
  const title = errors.length > 0 ? 'Not signed in' : 'Sign in with your work account';
  const fields = html`${hiddenField('next', next)}
${textField({
  name: 'who',
  label: 'Work e-mail or organization',
  value: who,
  error: errorOf(errors, 'who'),
  autocomplete: 'email',
  focus: errors.length === 0,
  attributes: html`autocapitalize="none" spellcheck="false" maxlength="320"`,
  help: 'Example: dana@example.com, or the name of the organization in URLs: acme',
})}
<button class="primary">Continue</button>`;
  const choices = providers.map(({ id, name }) =>
    postForm(
      frame,
      { action: `/sign-in/provider/${id}` },
      html`${hiddenField('next', next)} <button>Sign in with ${name}</button>`,
    ),
  );
  const content = html`<h1>Sign in with your work account</h1>
${errorSummary(errors)}
${
  choices.length > 0
    ? html`<div class="others">${choices}</div>`
    : postForm(frame, { action: companySignInPath, novalidate: true }, fields)
}
<p class="help"><a href="/sign-in?next=${encodeURIComponent(next)}">Sign in another way</a></p>`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The person who is asked for a code, and the error in the previous code. */
export interface CodePageData {
  /** Proves that this browser entered the right password. */
  readonly challenge: string;
  readonly userId: string;
  /** Where to go afterwards, a path of this server. */
  readonly next: string;
  readonly errors: readonly FieldError[];
}

/** Asks for the code of the authenticator app, after the password. */
export function codePage({ challenge, userId, next, errors }: CodePageData, frame: Frame): Html {
  const title = errors.length > 0 ? 'Not signed in' : 'Your code';
  const code = textField({
    name: 'code',
    label: 'Code from your authenticator app',
    autocomplete: 'one-time-code',
    error: errors[0]?.message,
    focus: errors.length === 0,
    attributes: html`autocapitalize="none" spellcheck="false"`,
    help: 'Six digits. Without the app, enter one of your recovery codes. Each recovery code works once.',
  });
  const fields = html`${hiddenField('challenge', challenge)}
${hiddenField('user', userId)}
${hiddenField('next', next)}
${code} <button class="primary">Sign in</button>`;
  const content = html`<h1>Enter your code</h1>
${errorSummary(errors)}
${postForm(frame, { action: '/sign-in/code', novalidate: true }, fields)}
<p class="help">No app and no recovery code? An administrator of your organization can reset your second factor. <a href="/sign-in">Start again</a></p>`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The entered values, and their errors. */
interface SetUpPageData {
  /** The path of this page. */
  readonly action: string;
  readonly email: string;
  /** The title of the organization. */
  readonly organization: string;
  /** Its name in URLs. */
  readonly name: string;
  /** Whether the page asks for the organization's name. */
  readonly asksOrganization: boolean;
  /** A valid password that stays in the form because of an error in another field. */
  readonly password?: string | undefined;
  readonly errors: readonly FieldError[];
}

/** Creates the first owner. */
export function setUpPage(data: SetUpPageData, frame: Frame): Html {
  const { action, email, organization, name, asksOrganization, password, errors } = data;
  const title = errors.length > 0 ? 'Not set up yet' : 'Set up';
  const organizationField = textField({
    name: 'organization',
    label: 'Organization',
    value: organization,
    error: errorOf(errors, 'organization'),
    autocomplete: 'organization',
    focus: errors.length === 0,
    attributes: html`spellcheck="false" maxlength="200"`,
    help: 'The name that people see, such as Acme GmbH. You can change it later.',
  });
  const nameField = textField({
    name: 'name',
    label: 'Name in URLs',
    value: name,
    error: errorOf(errors, 'name'),
    autocomplete: 'off',
    attributes: html`spellcheck="false" autocapitalize="none" maxlength="63" data-slug-of="organization"`,
    help: 'Every URL contains it, and it can never be changed. A short one is best, such as acme: lower-case letters, digits and hyphens.',
  });
  const emailField = textField({
    name: 'email',
    label: 'E-mail',
    type: 'email',
    value: email,
    error: errorOf(errors, 'email'),
    autocomplete: 'username',
    focus: !asksOrganization && errors.length === 0,
  });
  const fields = html`${asksOrganization && html`${organizationField} ${nameField} `}${emailField}
${newPasswordFields({ error: errorOf(errors, 'password'), kept: password })}
<button class="primary">Create account</button>`;
  const content = html`<div>
<h1>Set up Latchkey</h1>
<p class="lead">You become the first owner${!asksOrganization && html` of the organization <strong>${organization}</strong>`}.</p>
</div>
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The owner of the password, and the errors in the entered password. */
interface ResetPageData {
  /** The path of this page. */
  readonly action: string;
  readonly email: string;
  readonly errors: readonly FieldError[];
}

/** Sets a new password by a one-time link. */
export function resetPage({ action, email, errors }: ResetPageData, frame: Frame): Html {
  const title = errors.length > 0 ? 'No new password yet' : 'New password';
  const fields = html`<input type="hidden" name="email" value="${email}" autocomplete="username">
${newPasswordFields({ error: errors[0]?.message, focus: errors.length === 0 })}
<button class="primary">Set password</button>`;
  const content = html`<div>
<h1>New password</h1>
<p class="lead">For <strong dir="auto">${email}</strong>. Setting a new password signs you out of all browsers.</p>
</div>
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout({ title, width: 'form' }, frame, content);
}

/** The organization and role of the invitation, and the ways to accept it. */
interface InvitationPageData {
  /** The path of this page. */
  readonly action: string;
  readonly organization: Titled;
  readonly role: string;
  /** The address of the signed-in person, who can join with that account. */
  readonly signedInAs: string | undefined;
  readonly email: string;
  /** A valid password that stays in the form because of an error in another field. */
  readonly password?: string | undefined;
  /** The name of the identity provider, where there is one. */
  readonly provider: string | undefined;
  readonly errors: readonly FieldError[];
}

/** Joins an organization by a one-time link: with the account that is signed in, by the identity provider, or with a new account. */
export function invitationPage(data: InvitationPageData, frame: Frame): Html {
  const { organization, role, signedInAs, errors } = data;
  const title = errors.length > 0 ? 'Not joined yet' : `Join ${titleText(organization)}`;
  const content = html`<div>
<h1>Join ${titleMarkup(organization)}</h1>
<p class="lead">You were invited with the role <strong>${role}</strong>.</p>
</div>
${errorSummary(errors)}
${signedInAs === undefined ? joinAsNew(data, frame) : joinSignedIn(data.action, signedInAs, frame)}`;
  return layout({ title, width: 'form' }, frame, content);
}

function joinSignedIn(action: string, email: string, frame: Frame): Html {
  const join = html`<p>You are signed in as <strong dir="auto">${email}</strong>.</p>
<button class="primary">Join with this account</button>`;
  const signOut = html`${hiddenField('next', action)} <button>Use a different account</button>`;
  return html`${postForm(frame, { action: `${action}/join` }, join)}
${postForm(frame, { action: '/sign-out', className: 'others' }, signOut)}`;
}

function joinAsNew(data: InvitationPageData, frame: Frame): Html {
  const { action, email, password, provider, errors } = data;
  const fields = html`${textField({
    name: 'email',
    label: 'E-mail',
    type: 'email',
    value: email,
    error: errorOf(errors, 'email'),
    autocomplete: 'username',
    focus: errors.length === 0,
  })}
${newPasswordFields({ error: errorOf(errors, 'password'), kept: password })}
<button class="primary">Create account and join</button>`;
  const byProvider = html`<button>Join with ${provider}</button>`;
  return html`${postForm(frame, { action: `${action}/account`, novalidate: true }, fields)}
<div class="others">
<p class="or">or</p>
<a class="button" href="/sign-in?next=${encodeURIComponent(action)}">Sign in with an existing account</a>
${provider && postForm(frame, { action: `${action}/provider` }, byProvider)}
</div>`;
}
