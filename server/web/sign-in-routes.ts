import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { rememberBrowser } from '#accounts/guess-limit';
import { knownBrowserLifeSeconds, sessionLifeSeconds } from '#model/lifetimes';
import { serverListUrl } from '#model/server-list';
import { parseServerPath } from '#model/slug';
import type { IdentityProvider } from '#accounts/openid-provider';
import type { ProviderSetup } from '#accounts/provider-setup';
import { passkeyDomain } from '#accounts/passkeys';
import type { PasswordHashing } from '#accounts/passwords';
import type { Sealing } from '#secrets/master-key';
import {
  askSecondFactor,
  checkSecondFactorFirst,
  proveSecondFactor,
} from '#accounts/second-factor';
import { csrfToken, isRecentProof, type NewSession, startSession } from '#accounts/sessions';
import { ownPath, signIn } from '#accounts/sign-in';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#model/clock';
import { insertAuditEvent } from '#db/audit';
import { hasProviders } from '#db/identity-providers';
import { hasUsers } from '#db/people';
import { endSession, useSession } from '#db/sessions';
import { type Db, transaction } from '#db/transaction';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { hashSecret } from '#secrets/secrets';
import type { AccountGrant } from './account.ts';
import { pageAssets } from './assets.ts';
import type { FieldError } from './forms.ts';
import { redirectPage } from './messages.ts';
import {
  queryChoice,
  queryText,
  readCookie,
  readPageForm,
  seeOther,
  sendPage,
  setCookie,
} from './page-request.ts';
import {
  browserCsrfToken,
  browserToken,
  type CurrentPerson,
  currentMemberOf,
  currentPersonOf,
  type PersonForm,
  type PersonGuard,
  type PersonPage,
  visitOf,
  type VisitorForm,
  type VisitorGuard,
  type VisitorPage,
} from './page-session.ts';
import { codePage, type CodePageData, signInPage } from './sign-in.ts';

const notices: Readonly<Record<string, string>> = {
  'signed-out': 'You are signed out.',
};

const wholeAccount =
  'You are signed in through your organization, which opens only that organization. To open your account, sign in with your password or passkey.';

const noAccountYet =
  'No account exists yet. When the server started, it printed a link that creates the first owner. Restart the server to get a new link.';

/** `/sign-in`, by password and a code, and `/sign-out`. */
export function signInRoutes(
  app: FastifyInstance,
  guard: AccountGuards['visitor'],
  options: PeopleRoutesOptions,
): void {
  guard.get('/', goToStart);
  guard.get('/sign-in', showSignIn);
  guard.post('/sign-in', signInByPassword);
  guard.post('/sign-in/code', signInByCode);
  // Not through the guard, because the CSRF token to check depends on whether a person is still signed in.
  app.post('/sign-out', (request, reply) => signOut(request, reply, options));
}

const goToStart: SignInPage = async (request, reply, { base, people }) =>
  seeOther(reply, (await currentMemberOf(base, people)(request)) ? '/dashboard' : '/sign-in');

const showSignIn: SignInPage = async (request, reply, options) => {
  const { base, people } = options;
  const next = ownPath(queryText(request, 'next'), base);
  // A signed-in person comes here to sign in again before adding another way to sign in.
  const isAgain = queryText(request, 'again') !== undefined;
  if (!isAgain && (await currentPersonOf(base, people)(request))) return seeOther(reply, next);
  const isMember = !isAgain && (await currentMemberOf(base, people)(request)) !== undefined;
  const said = isMember ? wholeAccount : queryChoice(request, 'done', notices);
  const notice = (await hasUsers(people.db)) ? said : noAccountYet;
  return sendSignIn(request, reply, { next, notice }, options);
};

const signInByPassword: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const next = ownPath(form.get('next'), base);
  const email = form.get('email') ?? '';
  const password = form.get('password') ?? '';
  const typed = { email, password, deviceToken: deviceTokenOf(request, base) };
  const again = (message: string, status: number) =>
    sendSignIn(request, reply, { email, next, message, status }, options);
  const result = await signIn(typed, visitOf(request), people);
  switch (result.outcome) {
    case 'signed-in':
      return signInAfterPassword(request, reply, { userId: result.user.id, next }, options);
    case 'refused':
      return again('The e-mail address or the password is incorrect.', 422);
    case 'wait': {
      const event = { action: 'sign-in.wait', target: 'password', outcome: 'refused' } as const;
      await noteAccountEvent(request, { userId: undefined, ...event }, people);
      void reply.header('Retry-After', result.waitSeconds);
      const wait = waitInWords(result.waitSeconds);
      return again(`Too many failed attempts. Wait ${wait}, then try again.`, 429);
    }
  }
};

interface SignInShown {
  readonly email?: string;
  readonly next: string;
  readonly notice?: string | undefined;
  /** The error, shown beside the password. */
  readonly message?: string;
  readonly status?: number;
}

async function sendSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { email = '', next, notice, message, status }: SignInShown,
  { base, people }: PeopleRoutesOptions,
): Promise<FastifyReply> {
  const passkeys = passkeyDomain(base) !== undefined;
  const errors = message === undefined ? [] : [{ field: 'password', message }];
  const provider = people.identityProvider?.name;
  const company = await hasProviders(people.db);
  const organization = organizationOf(next, base);
  const data = { email, next, errors, notice, passkeys, provider, company, organization };
  const scripts = passkeys ? [pageAssets().passkeys.path] : [];
  return sendPage(reply, signInPage, data, {
    status,
    csrfToken: browserCsrfToken(request, reply, base),
    scripts,
  });
}

/** The one organization of all servers that an application requests, if the person comes from that request. */
function organizationOf(next: string, base: string): string | undefined {
  const { pathname, searchParams } = new URL(next, base);
  if (pathname !== '/oauth/consent') return undefined;
  const named = searchParams.getAll('resource').filter((one) => one !== serverListUrl(base));
  const start = `${base}/mcp/`;
  const places = named.map((one) =>
    one.startsWith(start) ? parseServerPath(one.slice(start.length))?.organization : undefined,
  );
  const [only, ...others] = new Set(places);
  return others.length === 0 ? only : undefined;
}

async function signOut(
  request: FastifyRequest,
  reply: FastifyReply,
  { base, people }: PeopleRoutesOptions,
): Promise<FastifyReply> {
  const person = await currentMemberOf(base, people)(request);
  let next = '/';
  if (person) {
    next = ownPath(readPageForm(request, base, person).get('next'), base);
    const { id: target, userId } = person.session;
    await transaction(people.db, async (tx) => {
      await endSession(tx, userId, target);
      const event = { userId, action: 'sign-out', target, outcome: 'done' } as const;
      await noteAccountEvent(request, event, { ...people, db: tx });
    });
    void reply.header('Set-Cookie', setCookie('latchkey', '', { base, maxAgeSeconds: 0 }));
  }
  // A page that needs an account asks the person to sign in; an invitation also lets them create an account.
  return seeOther(reply, next === '/' ? '/sign-in?done=signed-out' : next);
}

interface Ports {
  readonly base: string;
  readonly people: Pick<PeoplePorts, 'db' | 'clock'>;
}

/**
 * Starts a new session of a person in this browser, ends the previous one, and returns the CSRF token. From then on
 * the browser is known for that person.
 *
 * @throws {AccountRefusal} `sign_in_expired`, see `startSession`
 */
export async function signInBrowser(
  request: FastifyRequest,
  reply: FastifyReply,
  who: NewSession,
  { base, people }: Ports,
): Promise<{ csrfToken: string }> {
  const { db, clock } = people;
  const before = readCookie(request.headers.cookie, 'latchkey', base);
  const old = before && (await useSession(db, hashSecret(before), clock.now()));
  if (old) await endSession(db, old.userId, old.id);
  const { sessionToken } = await startSession(who, visitOf(request), { db, clock });
  const life = { base, maxAgeSeconds: sessionLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey', sessionToken, life));
  // A sign-in through a provider of an organization must not make it easier to guess the password of the whole account.
  if (who.through) return { csrfToken: csrfToken(sessionToken) };
  const device = await rememberBrowser(who.userId, deviceTokenOf(request, base), people);
  const deviceLife = { base, maxAgeSeconds: knownBrowserLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey-device', device, deviceLife));
  return { csrfToken: csrfToken(sessionToken) };
}

/** The cookie of a browser that was used to sign in before. */
export function deviceTokenOf({ headers }: FastifyRequest, base: string): string | undefined {
  return readCookie(headers.cookie, 'latchkey-device', base);
}

/**
 * Continues after a form: with an HTTP redirect between our own pages, or with a redirect page if OAuth may follow.
 */
export function sendOnward(
  reply: FastifyReply,
  next: string | undefined,
  base: string,
): FastifyReply {
  const path = ownPath(next, base);
  if (path.startsWith('/oauth/'))
    return sendPage(reply, redirectPage, { heading: 'Signed in', path });
  return seeOther(reply, path);
}

interface Onward {
  readonly userId: string;
  /** Where to go after sign-in. */
  readonly next: string;
}

/**
 * Continues after a correct password: asks for a code if the person has an authenticator app, otherwise signs the
 * browser in.
 */
export async function signInAfterPassword(
  request: FastifyRequest,
  reply: FastifyReply,
  { userId, next }: Onward,
  options: PeopleRoutesOptions,
): Promise<FastifyReply> {
  const { base, people } = options;
  const challenge = await askSecondFactor(userId, browserToken(request, reply, base), people);
  if (challenge === undefined) {
    await signInBrowser(request, reply, { userId, factors: 1 }, options);
    return sendOnward(reply, next, base);
  }
  return sendCodePage(request, reply, { challenge, userId, next, errors: [] }, base);
}

function sendCodePage(
  request: FastifyRequest,
  reply: FastifyReply,
  data: CodePageData,
  base: string,
  status = 200,
): FastifyReply {
  const page = { csrfToken: browserCsrfToken(request, reply, base), status };
  return sendPage(reply, codePage, data, page);
}

/** The second factor, from the page that follows the password. */
const signInByCode: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const userId = form.get('user') ?? '';
  const next = ownPath(form.get('next'), base);
  const typed = {
    userId,
    code: form.get('code') ?? '',
    challenge: form.get('challenge') ?? '',
    deviceToken: deviceTokenOf(request, base),
  };
  const cookieToken = browserToken(request, reply, base);
  const proof = await proveSecondFactor(typed, cookieToken, visitOf(request), people);
  const again = async (message: string, status: number) => {
    const challenge = await askSecondFactor(userId, cookieToken, people);
    // A refused code must not sign in, even if the app is removed at the same moment.
    if (challenge === undefined) throw new AccountRefusal('sign_in_expired', 'no app any more');
    const errors: FieldError[] = [{ field: 'code', message }];
    return sendCodePage(request, reply, { challenge, userId, next, errors }, base, status);
  };
  switch (proof.outcome) {
    case 'proved':
      await signInBrowser(request, reply, { userId, factors: 2 }, options);
      return sendOnward(reply, next, base);
    case 'refused':
      return again('The code is incorrect, expired or already used. Enter a new code.', 422);
    case 'wait': {
      void reply.header('Retry-After', proof.waitSeconds);
      const wait = waitInWords(proof.waitSeconds);
      return again(`Too many incorrect codes. Wait ${wait}, then try again.`, 429);
    }
  }
};

/** An action of a person, signed in or not, on an account. */
interface AccountEvent {
  readonly userId: string | undefined;
  readonly action: string;
  readonly target: string;
  readonly outcome: 'done' | 'refused';
}

/** Records an event in the audit log. Anyone can cause refusals endlessly to fill the log, so they are counted. */
export async function noteAccountEvent(
  request: FastifyRequest,
  { userId, outcome, ...event }: AccountEvent,
  { db, clock, refusals }: Pick<PeoplePorts, 'db' | 'clock' | 'refusals'>,
): Promise<void> {
  const { address, requestId } = visitOf(request);
  const actor = userId === undefined ? 'anonymous' : `user:${userId}`;
  const happened = { actor, organization: undefined, ...event, address, requestId };
  if (outcome === 'refused') await refusals.note(happened);
  else await insertAuditEvent(db, { ...happened, at: clock.now(), outcome });
}

/** @throws {AccountRefusal} unless the person signed in a moment ago, with a second factor if they have one */
export async function checkRecentProof(
  { session }: Pick<CurrentPerson, 'session'>,
  people: PeoplePorts,
): Promise<void> {
  if (!isRecentProof(session, people.clock.now())) {
    throw new AccountRefusal('reauthentication_required');
  }
  await checkSecondFactorFirst(session, people);
}

export function waitInWords(seconds: number): string {
  if (seconds === 1) return 'a second';
  return seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
}

/** The data and operations that the account pages need. */
export interface PeoplePorts {
  readonly db: Db;
  readonly sealing: Sealing;
  readonly refusals: RefusalLog;
  readonly hashing: PasswordHashing;
  /** The grants of the person. Without it, the account page has no such section. */
  readonly grantsOf?: (userId: string) => Promise<AccountGrant[]>;
  /** The identity providers of organizations. */
  readonly providerSetup: ProviderSetup;
  /** Single sign-on, where it is configured. */
  readonly identityProvider: IdentityProvider | undefined;
  readonly clock: Clock;
}

export interface PeopleRoutesOptions {
  readonly base: string;
  /** The organization of the first owner. If `undefined`, the page asks for its name. */
  readonly firstOrganization: string | undefined;
  readonly people: PeoplePorts;
  /** Counts logout tokens that are invalid. */
  readonly failedLogouts: FailedAttempts;
}

/** How account pages are registered. */
export interface AccountGuards {
  readonly visitor: VisitorGuard<PeopleRoutesOptions>;
  readonly person: PersonGuard<PeopleRoutesOptions>;
}

export type SignInPage = VisitorPage<PeopleRoutesOptions>;
export type SignInForm = VisitorForm<PeopleRoutesOptions>;
export type AccountPage = PersonPage<PeopleRoutesOptions>;
export type AccountForm = PersonForm<PeopleRoutesOptions>;
