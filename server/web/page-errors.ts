import type { FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal, type AccountRefusalCode } from '#accounts/account-refusal';
import { AdministrationRefusal } from '#admin/refusal';
import { insertAuditEvent } from '#db/audit';
import { databaseFault } from '#db/faults';
import { frameworkStatus, oauthStatus } from '#http/error-answers';
import { OAuthError } from '#oauth/oauth-error';
import { dashboardPath } from './layout.ts';
import { errorPage, type ErrorPageData } from './messages.ts';
import { type PageOptions, sendPage } from './page-request.ts';
import { currentPersonOf, type CurrentPersonPorts, visitOf } from './page-session.ts';

/** The person who sees a page, and its place in the dashboard. */
type Surroundings = Pick<PageOptions, 'person' | 'scripts' | 'dashboard'>;

/** What surrounds an error page; `undefined` for a page on its own. */
export type SurroundingsOf = (request: FastifyRequest) => Promise<Surroundings | undefined>;

/**
 * Answers an error with a page, and our scripts with one sentence. A forged form is recorded in the audit log of the
 * person it targeted. Without a signed-in person it is harmless and not recorded, because it could be sent endlessly
 * to fill the log. The page stands on its own unless `surroundingsOf` returns its surroundings, which is not called
 * for internal errors.
 */
export function pageErrors(
  base: string,
  ports: CurrentPersonPorts,
  surroundingsOf: SurroundingsOf = () => Promise.resolve(undefined),
) {
  const { db, clock } = ports;
  const currentPerson = currentPersonOf(base, ports);
  return async (
    error: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    const { status, headers, page } = pageErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'page failed');
    else request.log.info({ reason: String(error) }, 'page refused');
    const isForged = error instanceof AccountRefusal && error.code === 'csrf_invalid';
    const person = isForged ? await currentPerson(request) : undefined;
    if (person) {
      const { address, requestId } = visitOf(request);
      await insertAuditEvent(db, {
        at: clock.now(),
        actor: `user:${person.user.id}`,
        organization: undefined,
        action: 'forged-form',
        target: request.routeOptions.url,
        address,
        requestId,
        outcome: 'refused',
      });
    }
    void reply.headers(headers);
    if (request.headers['content-type']?.startsWith('application/json')) {
      return reply.code(status).header('Cache-Control', 'no-store').send({ message: page.text });
    }
    const around = status < 500 ? await surroundingsOf(request) : undefined;
    const data = { ...page, next: nextFrom(page.next, around) };
    return sendPage(reply, errorPage, data, { ...around, status });
  };
}

/**
 * In an organization the next step is its start page, not that of the person's first organization or the sign-in
 * page.
 */
function nextFrom(
  next: ErrorPageData['next'],
  around: Surroundings | undefined,
): ErrorPageData['next'] {
  const isStart = next === toDashboard || next === toSignIn;
  if (!isStart || !around?.dashboard) return next;
  return { ...toDashboard, href: dashboardPath(around.dashboard.organization.name) };
}

/** The default next step. */
const toDashboard = { text: 'To the dashboard', href: '/dashboard' };

/** What a page shows for an error. */
export function pageErrorAnswer(error: unknown): ErrorPageAnswer {
  if (error instanceof AccountRefusal) return accountErrorPage(error.code);
  if (error instanceof AdministrationRefusal) return administrationPage(error);
  const status = error instanceof OAuthError ? oauthStatus(error.code) : frameworkStatus(error);
  if (status !== undefined) {
    return plainErrorPage(
      status,
      'This cannot be read',
      'Something about the request is not as a browser sends it.',
    );
  }
  if (databaseFault(error) !== undefined) {
    const text =
      'The database does not answer at this moment. Nothing was changed; try again soon.';
    return { ...plainErrorPage(503, 'Not available', text), headers: { 'Retry-After': '5' } };
  }
  return plainErrorPage(
    500,
    'This did not work',
    'That is our fault, and the log of the server says why.',
  );
}

function administrationPage({ code, message }: AdministrationRefusal): ErrorPageAnswer {
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  switch (code) {
    case 'not_found': {
      const text =
        'It does not exist, it was removed, or this account may not see it. Follow the dashboard from its start.';
      return plainErrorPage(404, 'There is nothing here', text, toDashboard);
    }
    case 'forbidden': {
      const text = `${sentence} Ask an owner or an admin of the organization to do it, or to change your role.`;
      return plainErrorPage(403, 'Your role does not allow this', text, toDashboard);
    }
    case 'conflict':
      return plainErrorPage(409, 'Nothing was changed', sentence, toDashboard);
    case 'invalid':
      return plainErrorPage(422, 'Nothing was changed', sentence, toDashboard);
    case 'proof_old':
      return plainErrorPage(403, 'Sign in again first', sentence, {
        text: 'Sign in again',
        href: '/sign-in?again=1&next=/dashboard',
      });
  }
}

/** What a page shows when signing in, or changing how to sign in, is refused. */
function accountErrorPage(code: AccountRefusalCode): ErrorPageAnswer {
  switch (code) {
    case 'busy': {
      const text = 'Many people sign in at this moment. Try again in a few seconds.';
      return { ...plainErrorPage(503, 'Busy', text), headers: { 'Retry-After': '5' } };
    }
    case 'link_expired':
      return plainErrorPage(
        410,
        'This link is over',
        'It was used or taken back, it is too old, or a newer one took its place. Ask the person who gave it to you for a new one.',
      );
    case 'set_up_expired':
      return plainErrorPage(
        410,
        'This link is over',
        'It has already created the first owner, or it has expired. Until there is an account, the server prints a new link whenever it starts: restart it.',
      );
    case 'csrf_invalid':
      return plainErrorPage(
        403,
        'Nothing was changed',
        'The form did not come from a page that this browser has open now: it was too old, cookies are off, or another site sent it. Open the page again and repeat it.',
      );
    case 'reauthentication_required':
      return plainErrorPage(
        403,
        'Sign in again first',
        'Sign in again, then repeat it: changing how you sign in takes a sign-in within the last ten minutes.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'second_factor':
      return plainErrorPage(
        403,
        'A second factor is needed',
        'This organization requires one for its pages. Set up an authenticator app or a passkey on your account page, and sign in with it.',
        { text: 'To your account', href: '/account#second-factor' },
      );
    case 'passkey_first':
      return plainErrorPage(
        403,
        'Sign in with your passkey first',
        'Sign in with your passkey first, then repeat it: a password alone changes no other way to sign in. Where the passkey is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'provider_first':
      return plainErrorPage(
        403,
        'Sign in with your linked account first',
        'Sign in with your linked account first, then repeat it: a password alone changes no other way to sign in. Where that account is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'enrolled':
      return plainErrorPage(
        409,
        'Nothing was changed',
        'An authenticator app is set up already, or none waits for its first code. Look at your account and start again there.',
        { text: 'To your account', href: '/account' },
      );
    case 'sign_in_expired':
      return plainErrorPage(
        403,
        'Not signed in',
        'The code came more than five minutes after the password, or from another browser. Start again.',
      );
    case 'not_found':
      return plainErrorPage(
        404,
        'Nothing was changed',
        'What the form was about is not there, or not there any more.',
        { text: 'To your account', href: '/account' },
      );
    case 'passkey_invalid':
      return plainErrorPage(
        403,
        'Not signed in',
        'The passkey was not recognised. Try again, or sign in otherwise.',
      );
    case 'state_unknown':
    case 'identity_invalid':
      return plainErrorPage(
        403,
        'Not signed in',
        'The answer of the other service does not prove who you are. Try again, or sign in otherwise.',
      );
    case 'identity_taken':
      return plainErrorPage(
        409,
        'Not linked',
        'Another person here signs in with that account. Unlink it there first, or use another one.',
      );
    case 'provider_unreachable':
      return plainErrorPage(
        502,
        'Not signed in',
        'The other service does not answer at this moment. Try again soon, or sign in otherwise.',
      );
    case 'identity_unknown':
      return plainErrorPage(
        403,
        'Not signed in',
        'No person here has linked that account. Sign in another way, then link it on your account page.',
      );
  }
}

/** The contents of an error page. */
interface ErrorPageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly page: ErrorPageData;
}

/** The next step if it is unknown whether the person is signed in. */
const toSignIn = { text: 'To the sign-in page', href: '/sign-in' };

/** An error page of text and a next step, by default the sign-in page. */
function plainErrorPage(
  status: number,
  heading: string,
  text: string,
  next = toSignIn,
): ErrorPageAnswer {
  return { status, headers: {}, page: { heading, text, next } };
}

/** What a browser shows of an address that is none of ours. */
export function nowherePage(): ErrorPageData {
  const text = 'No page has this address. Check how it is written, or start at the dashboard.';
  const next = { text: 'To the dashboard', href: '/dashboard' };
  return { heading: 'There is nothing here', text, next };
}
