import type { FastifyReply } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { join, openInvitation } from '#accounts/invitations';
import { isSetUpOpen, setUp } from '#accounts/one-time-links';
import { passwordProblem, setPassword } from '#accounts/passwords';
import type { IdentityProvider } from '#accounts/openid-provider';
import { isEmail } from '#model/email';
import type { Form } from '#oauth/forms';
import { newUserId, hashSecret } from '#secrets/secrets';
import { beginUpstreamSignIn } from '#accounts/single-sign-on';
import { findLink, takeLink } from '#db/one-time';
import { findUser, type User } from '#db/people';
import { transaction } from '#db/transaction';
import { isSlug, slugOf, slugRule } from '#model/slug';
import type { FieldError } from './forms.ts';
import { pageAssets } from './assets.ts';
import { redirectPage } from './messages.ts';
import { readCookie, sendPage } from './page-request.ts';
import { browserCsrfToken, currentPersonOf, type PageRequest, visitOf } from './page-session.ts';
import {
  type AccountForm,
  type AccountGuards,
  type PeoplePorts,
  type PeopleRoutesOptions,
  sendOnward,
  signInAfterPassword,
  signInBrowser,
  type SignInForm,
  type SignInPage,
} from './sign-in-routes.ts';
import { knownPerson } from '#accounts/hashing-queue';
import { invitationPage, resetPage, setUpPage } from './sign-in.ts';

/** `/set-up/{token}`, which creates the first owner, and `/reset/{token}`, which sets a new password. */
export function linkRoutes(guard: AccountGuards['visitor']): void {
  guard.get('/set-up/:linkToken', showSetUp);
  guard.post('/set-up/:linkToken', createOwner);
  guard.get('/reset/:linkToken', showReset);
  guard.post('/reset/:linkToken', resetPassword);
}

/** `/invitation/{token}`: accepts an invitation to an organization. */
export function invitationRoutes(
  { visitor, person }: AccountGuards,
  { people: { identityProvider } }: PeopleRoutesOptions,
): void {
  visitor.get('/invitation/:linkToken', showInvitation);
  person.post('/invitation/:linkToken/join', joinSignedIn);
  visitor.post('/invitation/:linkToken/account', joinWithNewAccount);
  if (identityProvider) {
    visitor.post('/invitation/:linkToken/provider', joinWithProvider(identityProvider));
  }
}

const showSetUp: SignInPage = async (request, reply, options) => {
  const { linkToken = '' } = request.params;
  if (!(await isSetUpOpen(linkToken, options.people))) throw new AccountRefusal('set_up_expired');
  const entered = { email: '', organization: options.firstOrganization ?? '', name: '' };
  return sendSetUp(request, reply, entered, [], options);
};

const createOwner: SignInForm = async (form, request, reply, options) => {
  const { base, people, firstOrganization } = options;
  const { linkToken = '' } = request.params;
  if (!(await isSetUpOpen(linkToken, people))) throw new AccountRefusal('set_up_expired');
  const chosenName = readOrganization(form, firstOrganization);
  const { title, name: organization } = chosenName;
  const { email, password, validPassword, errors: accountErrors } = readAccount(form);
  const errors = [...chosenName.errors, ...accountErrors];
  if (errors.length > 0) {
    const entered = { email, organization: title, name: organization, password: validPassword };
    return sendSetUp(request, reply, entered, errors, options);
  }
  const chosen = { email, password, organization, ...(title !== organization && { title }) };
  const owner = await setUp(linkToken, chosen, visitOf(request), people);
  await signInBrowser(request, reply, { userId: owner.id, factors: 1 }, options);
  return sendOnward(reply, '/dashboard', base);
};

/**
 * Reads the title of the first organization and its name in URLs. Without a name, it derives one from the title. A name can never be changed,
 * so one that differs from the title is used only after the person has seen it.
 */
function readOrganization(form: Form, first: string | undefined) {
  const title = first ?? form.get('organization')?.trim() ?? '';
  const typed = first ?? form.get('name')?.trim() ?? '';
  const name = typed || slugOf(title);
  const errors: FieldError[] = [];
  if (title === '' || title.length > 200) {
    const message = 'Enter the name of your organization, of at most 200 characters.';
    errors.push({ field: 'organization', message });
  } else if (!isSlug(name)) {
    const message =
      name === '' ? 'Enter a name for the URLs, such as acme.' : `The name ${slugRule}.`;
    errors.push({ field: 'name', message });
  } else if (typed === '' && name !== title.toLowerCase()) {
    const message = `URLs would contain ${name}, which can never be changed. Shorten it, or choose Create account again to keep it.`;
    errors.push({ field: 'name', message });
  }
  return { title, name, errors };
}

function sendSetUp(
  request: PageRequest,
  reply: FastifyReply,
  entered: { email: string; organization: string; name: string; password?: string | undefined },
  errors: readonly FieldError[],
  { base, firstOrganization }: PeopleRoutesOptions,
) {
  const action = `/set-up/${request.params['linkToken'] ?? ''}`;
  const asksOrganization = firstOrganization === undefined;
  const data = { ...entered, action, asksOrganization, errors };
  const csrfToken = browserCsrfToken(request, reply, base);
  return sendPage(reply, setUpPage, data, { csrfToken, scripts: [pageAssets().setUp.path] });
}

/** Reads the e-mail address and password of a new account, and finds errors in them. */
function readAccount(form: Form) {
  const email = form.get('email')?.trim() ?? '';
  const password = form.get('password') ?? '';
  const errors: FieldError[] = [];
  if (!isEmail(email)) {
    errors.push({
      field: 'email',
      message: 'Enter a full e-mail address. Example: dana@example.com',
    });
  }
  const problem = passwordProblem(password, form.get('repeated') ?? '', email);
  if (problem !== undefined) errors.push({ field: 'password', message: problem });
  // A valid password is shown again beside the error of another field.
  return { email, password, validPassword: problem === undefined ? password : undefined, errors };
}

const showReset: SignInPage = async (request, reply, { base, people }) =>
  sendReset(request, reply, await ownerOfLink(request, people), [], base);

const resetPassword: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const { db, clock } = people;
  const { linkToken = '' } = request.params;
  const user = await ownerOfLink(request, people);
  const password = form.get('password') ?? '';
  const message = passwordProblem(password, form.get('repeated') ?? '', user.email);
  if (message !== undefined) {
    return sendReset(request, reply, user, [{ field: 'password', message }], base);
  }
  // Hashes before the transaction, because hashing waits for its turn and can be refused.
  const hash = await people.hashing.hash(password, knownPerson(user));
  // One transaction, so that the link stays valid if the password cannot be stored.
  await transaction(db, async (tx) => {
    if (!(await takeLink(tx, hashSecret(linkToken), clock.now())))
      throw new AccountRefusal('link_expired');
    await setPassword(user, hash, visitOf(request), { db: tx, clock });
  });
  const next = '/account?done=password';
  return signInAfterPassword(request, reply, { userId: user.id, next }, options);
};

/** The person who may set a new password with the link. */
async function ownerOfLink({ params }: PageRequest, { db, clock }: PeoplePorts): Promise<User> {
  const purpose = await findLink(db, hashSecret(params['linkToken'] ?? ''), clock.now());
  const user = purpose?.type === 'reset' ? await findUser(db, purpose.userId) : undefined;
  if (!user) throw new AccountRefusal('link_expired');
  return user;
}

function sendReset(
  request: PageRequest,
  reply: FastifyReply,
  { email }: User,
  errors: readonly FieldError[],
  base: string,
) {
  const data = { action: `/reset/${request.params['linkToken'] ?? ''}`, email, errors };
  return sendPage(reply, resetPage, data, { csrfToken: browserCsrfToken(request, reply, base) });
}

const showInvitation: SignInPage = (request, reply, options) =>
  sendInvitation(request, reply, {}, options);

const joinSignedIn: AccountForm = async (person, _form, request, reply, options) => {
  const { base, people } = options;
  const { linkToken = '' } = request.params;
  const { organization } = await openInvitation(linkToken, people);
  const outcome = await join(linkToken, { id: person.user.id }, visitOf(request), people);
  if (outcome === 'done') return sendOnward(reply, `/dashboard/${organization}`, base);
  const message = `You are already a member of ${organization}. Another person can still use the invitation.`;
  return sendInvitation(request, reply, { errors: [{ field: '', message }] }, options);
};

const joinWithNewAccount: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const { linkToken = '' } = request.params;
  const { organization } = await openInvitation(linkToken, people);
  const { email, password, validPassword, errors } = readAccount(form);
  if (errors.length > 0) {
    return sendInvitation(request, reply, { email, password: validPassword, errors }, options);
  }
  // The limit is per organization rather than per invitation, because an organization can have very many invitations.
  const whose = { known: `invited to ${organization}` };
  const passwordHash = await people.hashing.hash(password, whose);
  const made = { id: newUserId(), email, createdAt: people.clock.now(), passwordHash };
  const outcome = await join(linkToken, made, visitOf(request), people);
  if (outcome !== 'done') {
    const message = 'An account with this address already exists. If it is yours, sign in instead.';
    const refused = [{ field: 'email', message }];
    return sendInvitation(request, reply, { email, password, errors: refused }, options);
  }
  await signInBrowser(request, reply, { userId: made.id, factors: 1 }, options);
  return sendOnward(reply, `/dashboard/${organization}`, base);
};

const joinWithProvider =
  (provider: IdentityProvider): SignInForm =>
  async (_form, request, reply, { base, people }) => {
    const { linkToken = '' } = request.params;
    await openInvitation(linkToken, people);
    const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base) ?? '';
    const start = { purpose: 'join', next: `/invitation/${linkToken}`, cookieToken } as const;
    const { href } = await beginUpstreamSignIn(start, { ...people, provider });
    return sendPage(reply, redirectPage, { heading: `To ${provider.name}`, path: href });
  };

interface InvitationInput {
  readonly email?: string;
  readonly password?: string | undefined;
  readonly errors?: readonly FieldError[];
}

async function sendInvitation(
  request: PageRequest,
  reply: FastifyReply,
  { email, password, errors = [] }: InvitationInput,
  { base, people }: PeopleRoutesOptions,
) {
  const { linkToken = '' } = request.params;
  const invitation = await openInvitation(linkToken, people);
  const { organization, organizationTitle, role } = invitation;
  const person = await currentPersonOf(base, people)(request);
  const data = {
    action: `/invitation/${linkToken}`,
    organization: { name: organization, title: organizationTitle },
    role,
    signedInAs: person?.user.email,
    email: email ?? invitation.email ?? '',
    password,
    provider: people.identityProvider?.name,
    errors,
  };
  if (person) return sendPage(reply, invitationPage, data, { person });
  const csrfToken = browserCsrfToken(request, reply, base);
  return sendPage(reply, invitationPage, data, { csrfToken });
}
