import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { rememberBrowser } from '#accounts/guess-limit';
import { knownBrowserLifeSeconds, sessionLifeSeconds } from '#model/lifetimes';
import type { IdentityProvider } from '#accounts/openid-provider';
import { passkeyDomain } from '#accounts/passkeys';
import type { PasswordHashing } from '#accounts/passwords';
import type { Sealing } from '#secrets/master-key';
import { askSecondFactor, proveSecondFactor } from '#accounts/second-factor';
import { csrfToken, startSession } from '#accounts/sessions';
import { ownPath, signIn } from '#accounts/sign-in';
import type { RefusalLog } from '#audit/counted-refusals';
import type { Clock } from '#model/clock';
import { insertAuditEvent } from '#db/audit';
import { hasUsers } from '#db/people';
import { endSession, type Session, useSession } from '#db/sessions';
import { type Db, transaction } from '#db/transaction';
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
import { browserCsrfToken, browserToken, currentPersonOf, visitOf } from './page-session.ts';
import { codePage, type CodePageData, signInPage } from './sign-in.ts';

const notices: Readonly<Record<string, string>> = {
  'signed-out': 'You are signed out.',
};

const nobodyYet =
  'No account exists yet. When the server started, it printed a link that creates the first owner. Restart the server to get a new link.';

/** `/sign-in`, by password, and `/sign-out`. */
export function signInRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  const currentPerson = currentPersonOf(base, people);
  const passkeys = passkeyDomain(base) !== undefined;
  const send = (
    request: FastifyRequest,
    reply: FastifyReply,
    data: { email?: string; next: string; error?: FieldError; notice?: string | undefined },
    status = 200,
  ) => {
    const { email = '', next, error, notice } = data;
    const provider = people.identityProvider?.name;
    return sendPage(
      reply,
      signInPage,
      { email, next, errors: error ? [error] : [], notice, passkeys, provider },
      {
        status,
        csrfToken: browserCsrfToken(request, reply, base),
        scripts: passkeys ? [pageAssets().passkeys.path] : [],
      },
    );
  };

  app.get('/', async (request, reply) => {
    const person = await currentPerson(request);
    return seeOther(reply, person ? '/dashboard' : '/sign-in');
  });

  app.get('/sign-in', async (request, reply) => {
    const next = ownPath(queryText(request, 'next'), base);
    // A signed-in person comes here to sign in again before adding another way to sign in.
    const isAgain = queryText(request, 'again') !== undefined;
    if (!isAgain && (await currentPerson(request))) {
      return seeOther(reply, next);
    }
    const notice = (await hasUsers(people.db)) ? queryChoice(request, 'done', notices) : nobodyYet;
    return send(request, reply, { next, notice });
  });

  app.post('/sign-in', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
    const next = ownPath(form.get('next'), base);
    const email = form.get('email') ?? '';
    const password = form.get('password') ?? '';
    const typed = { email, password, deviceToken: deviceTokenOf(request, base) };
    const result = await signIn(typed, visitOf(request), people);
    switch (result.outcome) {
      case 'signed-in':
        return signInAfterPassword(request, reply, { userId: result.user.id, next }, options);
      case 'refused': {
        const message = 'The e-mail address or the password is incorrect.';
        return send(request, reply, { email, next, error: { field: 'password', message } }, 422);
      }
      case 'wait': {
        const { address, requestId } = visitOf(request);
        await people.refusals.note({
          actor: 'anonymous',
          organization: undefined,
          action: 'sign-in.wait',
          target: 'password',
          address,
          requestId,
        });
        const message = `Too many failed attempts. Wait ${waitInWords(result.waitSeconds)}, then try again.`;
        void reply.header('Retry-After', result.waitSeconds);
        return send(request, reply, { email, next, error: { field: 'password', message } }, 429);
      }
    }
  });

  codeRoute(app, options);

  app.post('/sign-out', async (request, reply) => {
    const person = await currentPerson(request);
    let next = '/';
    if (person) {
      next = ownPath(readPageForm(request, base, person).get('next'), base);
      const { user, session } = person;
      const { address, requestId } = visitOf(request);
      await transaction(people.db, async (tx) => {
        await endSession(tx, user.id, session.id);
        await insertAuditEvent(tx, {
          at: people.clock.now(),
          actor: `user:${user.id}`,
          organization: undefined,
          action: 'sign-out',
          target: session.id,
          address,
          requestId,
          outcome: 'done',
        });
      });
      void reply.header('Set-Cookie', setCookie('latchkey', '', { base, maxAgeSeconds: 0 }));
    }
    // A page that needs an account asks for it; an invitation also lets a person create one.
    return seeOther(reply, next === '/' ? '/sign-in?done=signed-out' : next);
  });
}

interface Ports {
  readonly base: string;
  readonly people: Pick<PeoplePorts, 'db' | 'clock'>;
}

/**
 * Starts a new session of a person in this browser, ends the previous one, and returns the CSRF token. From then on
 * the browser is known for that person.
 */
export async function signInBrowser(
  request: FastifyRequest,
  reply: FastifyReply,
  who: Pick<Session, 'userId' | 'factors'>,
  { base, people }: Ports,
): Promise<{ csrfToken: string }> {
  const { db, clock } = people;
  const before = readCookie(request.headers.cookie, 'latchkey', base);
  const old = before && (await useSession(db, hashSecret(before), clock.now()));
  if (old) await endSession(db, old.userId, old.id);
  const { sessionToken } = await startSession(who, visitOf(request), { db, clock });
  const life = { base, maxAgeSeconds: sessionLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey', sessionToken, life));
  const device = await rememberBrowser(who.userId, deviceTokenOf(request, base), people);
  const deviceLife = { base, maxAgeSeconds: knownBrowserLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey-device', device, deviceLife));
  return { csrfToken: csrfToken(sessionToken) };
}

/** The cookie of a browser that was used to sign in before, if we issued it. */
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

/** `POST /sign-in/code`: the second factor, from the page that follows the password. */
function codeRoute(app: FastifyInstance, options: PeopleRoutesOptions): void {
  const { base, people } = options;
  app.post('/sign-in/code', async (request, reply) => {
    const form = readPageForm(request, base, undefined);
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
      case 'wait':
        void reply.header('Retry-After', proof.waitSeconds);
        return again(
          `Too many incorrect codes. Wait ${waitInWords(proof.waitSeconds)}, then try again.`,
          429,
        );
    }
  });
}

/** A waiting time in words. */
export function waitInWords(seconds: number): string {
  if (seconds === 1) return 'a second';
  return seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
}

/** What the account pages need. */
export interface PeoplePorts {
  readonly db: Db;
  readonly sealing: Sealing;
  readonly refusals: RefusalLog;
  readonly hashing: PasswordHashing;
  /** The grants of the person. Without it, the account page has no such section. */
  readonly grantsOf?: (userId: string) => Promise<AccountGrant[]>;
  /** Single sign-on, where it is configured. */
  readonly identityProvider: IdentityProvider | undefined;
  readonly clock: Clock;
}

export interface PeopleRoutesOptions {
  readonly base: string;
  /** The organization of the first owner. If `undefined`, the page asks for its name. */
  readonly firstOrganization: string | undefined;
  readonly people: PeoplePorts;
}
