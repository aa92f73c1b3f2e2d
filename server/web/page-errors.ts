import type { FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal, type AccountRefusalCode } from '#accounts/account-refusal';
import { AdministrationRefusal } from '#admin/refusal';
import { insertAuditEvent } from '#db/audit';
import { databaseFault } from '#db/faults';
import { frameworkStatus, oauthStatus } from '#http/error-answers';
import { OAuthError } from '#oauth/oauth-error';
import { companySignInPath, dashboardPath, type Link } from './layout.ts';
import { errorPage, type ErrorPageData } from './messages.ts';
import { type PageOptions, sendPage } from './page-request.ts';
import { currentMemberOf, type CurrentPersonPorts, visitOf } from './page-session.ts';

/** The person who sees a page, and its place in the dashboard. */
type Surroundings = Pick<PageOptions, 'person' | 'scripts' | 'dashboard'>;

/** Finds the surroundings of an error page; `undefined` for a page on its own. */
export type SurroundingsOf = (request: FastifyRequest) => Promise<Surroundings | undefined>;

/**
 * Answers an error with a page, or with one sentence for our scripts. A forged form is recorded in the audit log of the
 * person it targeted. Without a signed-in person it is harmless and not recorded, because it could be sent endlessly
 * to fill the log. The page stands on its own unless `surroundingsOf` returns its surroundings. For internal errors,
 * `surroundingsOf` is not called.
 */
export function pageErrors(
  base: string,
  ports: CurrentPersonPorts,
  surroundingsOf: SurroundingsOf = () => Promise.resolve(undefined),
) {
  const { db, clock } = ports;
  const currentPerson = currentMemberOf(base, ports);
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
    const isOld = error instanceof AdministrationRefusal && error.code === 'proof_old';
    const next = isOld && request.method === 'GET' ? afterSignIn(request.url) : page.next;
    const data = { ...page, next: nextFrom(next, around) };
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
const toDashboard = { text: 'Go to the dashboard', href: '/dashboard' };

/** Leads back to the page that asked for a recent sign-in. */
function afterSignIn(next: string) {
  return { text: 'Sign in again', href: `/sign-in?again=1&next=${encodeURIComponent(next)}` };
}

export function pageErrorAnswer(error: unknown): ErrorPageAnswer {
  if (error instanceof AccountRefusal) {
    const { status = 403, heading, text, next, headers = {} } = accountErrors[error.code];
    return { ...plainErrorPage(status, heading, text, next), headers };
  }
  if (error instanceof AdministrationRefusal) return administrationPage(error);
  const status = error instanceof OAuthError ? oauthStatus(error.code) : frameworkStatus(error);
  if (status !== undefined) {
    return plainErrorPage(
      status,
      'Invalid request',
      'The server could not read the request. Go back and try again.',
    );
  }
  if (databaseFault(error) !== undefined) {
    const text = 'The database is not available. Try again in a few minutes.';
    return {
      ...plainErrorPage(503, 'Temporarily unavailable', text),
      headers: retrySoon,
    };
  }
  return plainErrorPage(
    500,
    'Something went wrong',
    'The server encountered an internal error. Its log has the details.',
  );
}

function administrationPage({ code, message }: AdministrationRefusal): ErrorPageAnswer {
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  switch (code) {
    case 'not_found': {
      const text =
        'The page does not exist, was removed, or is not visible to your account. Start again at the dashboard.';
      return plainErrorPage(404, 'Page not found', text, toDashboard);
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
      return plainErrorPage(403, 'Sign in again', sentence, afterSignIn('/dashboard'));
    case 'signed_out':
      return plainErrorPage(
        401,
        'Nothing was changed',
        'Your session has ended. Sign in again, then repeat the change.',
      );
  }
}

/** The next step if it is unknown whether the person is signed in. */
const toSignIn = { text: 'Go to the sign-in page', href: '/sign-in' };
const toAccount = { text: 'Go to your account', href: '/account' };
const signInAgain = { text: 'Sign in again', href: '/sign-in?again=1&next=/account' };
const toCompanySignIn = { text: 'Sign in with your work account', href: companySignInPath };
const retrySoon = { 'Retry-After': '5' };

interface AccountErrorWords {
  /** Default 403. */
  readonly status?: number;
  readonly heading: string;
  readonly text: string;
  /** By default the sign-in page. */
  readonly next?: Link;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The pages for refusals to sign in or to change how to sign in. */
const accountErrors: Readonly<Record<AccountRefusalCode, AccountErrorWords>> = {
  busy: {
    status: 503,
    heading: 'Server busy',
    text: 'Too many people are signing in. Try again in a few seconds.',
    headers: retrySoon,
  },
  link_expired: {
    status: 410,
    heading: 'This link is no longer valid',
    text: 'The link was used, revoked or replaced, or it has expired. Ask the person who gave it to you for a new one.',
  },
  set_up_expired: {
    status: 410,
    heading: 'This link is no longer valid',
    text: 'The link was already used, or it has expired. If no account exists yet, restart the server to get a new link.',
  },
  csrf_invalid: {
    heading: 'Nothing was changed',
    text: 'The form has expired, cookies are off, or another site sent the form. Reload the page and try again.',
  },
  reauthentication_required: {
    heading: 'Sign in again',
    text: 'To change how you sign in, you must have signed in within the last ten minutes. Sign in again, then repeat the change.',
    next: signInAgain,
  },
  second_factor: {
    heading: 'Second factor required',
    text: 'This organization requires a second factor. Set up an authenticator app or a passkey on your account page, then sign in with it.',
    next: { ...toAccount, href: '/account#second-factor' },
  },
  single_sign_on: {
    heading: 'Company sign-in required',
    text: 'This organization requires that its members sign in through its identity provider. Sign in with your work account.',
    next: toCompanySignIn,
  },
  passkey_first: {
    heading: 'Sign in with your passkey',
    text: 'A password alone is not enough to change how you sign in. Sign in with your passkey, then repeat the change. If you lost the passkey, an administrator can reset your second factor.',
    next: signInAgain,
  },
  provider_first: {
    heading: 'Sign in with your linked account',
    text: 'A password alone is not enough to change how you sign in. Sign in with your linked account, then repeat the change. If you lost that account, an administrator can reset your second factor.',
    next: signInAgain,
  },
  enrolled: {
    status: 409,
    heading: 'Nothing was changed',
    text: 'An authenticator app is already set up, or its setup has expired. Start again on your account page.',
    next: toAccount,
  },
  sign_in_expired: {
    heading: 'Not signed in',
    text: 'You entered the code more than five minutes after your password, or in another browser. Sign in again.',
  },
  not_found: {
    status: 404,
    heading: 'Nothing was changed',
    text: 'The item does not exist or was removed.',
    next: toAccount,
  },
  passkey_invalid: {
    heading: 'Not signed in',
    text: 'The passkey was not recognized. Try again, or sign in another way.',
  },
  state_unknown: {
    heading: 'Not signed in',
    text: 'The sign-in service did not confirm who you are. Try again, or sign in another way.',
  },
  identity_invalid: {
    heading: 'Not signed in',
    text: 'The sign-in service did not confirm who you are. Try again, or sign in another way.',
  },
  email_missing: {
    heading: 'No e-mail address',
    text: 'The sign-in service did not send the claim email. Ask the administrator of this server to let it send that claim.',
  },
  email_unsaid: {
    heading: 'E-mail address not verified',
    text: 'The sign-in service did not send the claim email_verified, so nothing shows that the address is yours. Ask the administrator of this server to let it send that claim, or to set --oidc-trust-email.',
  },
  email_unverified: {
    heading: 'E-mail address not verified',
    text: 'The sign-in service has not verified your e-mail address: the claim email_verified is not true. Verify the address there, or ask an administrator of the service to mark it as verified, then try again.',
  },
  identity_taken: {
    status: 409,
    heading: 'Not linked',
    text: 'Another person’s account here is linked to that account. Unlink it first, or use a different account.',
  },
  provider_unreachable: {
    status: 502,
    heading: 'Not signed in',
    text: 'The sign-in service is not responding. Try again later, or sign in another way.',
  },
  identity_unknown: {
    heading: 'Not signed in',
    text: 'That account is not linked to an account here. If you have one, sign in another way and link it on your account page. Otherwise, ask your administrator for an invitation.',
  },
  provider_unknown: {
    status: 404,
    heading: 'Not signed in',
    text: 'This way to sign in does not exist or is turned off. Start again with your work e-mail address.',
    next: toCompanySignIn,
  },
  member_unknown: {
    heading: 'Not signed in',
    text: 'Your company confirmed who you are, but no member of the organization is linked to that account. Ask an administrator of the organization to invite your work e-mail address. The audit log tells them the reason.',
    next: toCompanySignIn,
  },
  deactivated: {
    heading: 'Deactivated',
    text: 'The directory of this organization deactivated the person with this e-mail address, so the invitation cannot be used. Ask an administrator of the directory to activate them.',
    next: toSignIn,
  },
};

interface ErrorPageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly page: ErrorPageData;
}

/** An error page of text and a next step, by default the sign-in page. */
function plainErrorPage(
  status: number,
  heading: string,
  text: string,
  next = toSignIn,
): ErrorPageAnswer {
  return { status, headers: {}, page: { heading, text, next } };
}

/** The page for a URL that does not exist. */
export function nowherePage(): ErrorPageData {
  const text = 'No page has this URL. Check the spelling, or start at the dashboard.';
  const next = { text: 'Go to the dashboard', href: '/dashboard' };
  return { heading: 'Page not found', text, next };
}
