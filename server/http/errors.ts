import {
  AdministrationRefusal,
  type AdministrationRefusalCode,
  type FieldError,
} from '#administration/administration-refusal';
import { wireName } from '#api/wire-names';
import type { ErrorPageData } from '#pages/error-page';
import { PeopleRefusal, type PeopleRefusalCode } from '#people/people-refusal';
import { OAuthRefusal, type OAuthErrorCode } from '#oauth/oauth-refusal';
import { TunnelRefusal, type TunnelRefusalCode } from '#tunnel/tunnel-refusal';

/** An HTTP answer in the making: status, headers, and the members of its JSON body. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: string; readonly error_description: string };
}

/**
 * What an OAuth or metadata endpoint says about a failure. One of the two places that speak HTTP
 * statuses; nothing private goes out. RFC 6749 §5.2
 */
export function oauthErrorAnswer(error: unknown): ErrorAnswer {
  if (error instanceof OAuthRefusal) {
    const { code, message, challenge, retryAfterSeconds: after } = error;
    const headers: Record<string, string> = {
      ...(challenge !== undefined && { 'WWW-Authenticate': `${challenge} realm="latchkey"` }),
      ...(after !== undefined && { 'Retry-After': String(after) }),
    };
    return answer(statusOf(code), code, message, headers);
  }
  const status = frameworkStatus(error);
  if (status !== undefined) return answer(status, 'invalid_request', frameworkWords(status));
  if (isStoreFault(error)) {
    return answer(503, 'temporarily_unavailable', 'the database is not available, try again soon');
  }
  return answer(500, 'server_error', 'this is our fault, see the log of the server');
}

function answer(
  status: number,
  code: string,
  description: string,
  headers: Record<string, string> = {},
): ErrorAnswer {
  return { status, headers, body: { error: code, error_description: description } };
}

function statusOf(code: OAuthErrorCode): number {
  switch (code) {
    case 'invalid_client':
      return 401;
    case 'invalid_request':
    case 'invalid_grant':
    case 'unauthorized_client':
    case 'unsupported_grant_type':
    case 'unsupported_response_type':
    case 'access_denied':
    case 'invalid_scope':
    case 'invalid_target':
    case 'invalid_redirect_uri':
    case 'invalid_client_metadata':
      return 400;
    case 'slow_down':
      return 429;
  }
}

/** What the admin API says about a failure: the same members, and which fields are wrong. */
export function adminErrorAnswer(error: unknown): ErrorAnswer & {
  readonly body: { readonly fields?: readonly FieldError[] };
} {
  if (!(error instanceof AdministrationRefusal)) {
    const { body, ...rest } = oauthErrorAnswer(error);
    if (body.error !== 'invalid_client') return { ...rest, body };
    const headers = { 'WWW-Authenticate': 'Bearer realm="latchkey"' };
    return { status: 401, headers, body: { ...body, error: 'invalid_token' } };
  }
  const { code, message } = error;
  const fields = error.fields.map(({ field, problem }) => ({ field: wireName(field), problem }));
  const [first] = fields;
  const words = first ? `${first.field} ${first.problem}`.trim() : message;
  const { status, headers, body } = answer(refusalStatus(code), code, words);
  return { status, headers, body: { ...body, ...(first && { fields }) } };
}

function refusalStatus(code: AdministrationRefusalCode): number {
  switch (code) {
    case 'not_found':
      return 404;
    case 'forbidden':
    case 'proof_old':
      return 403;
    case 'invalid':
      return 422;
    case 'conflict':
      return 409;
  }
}

/** What an agent is told that is not let in. `docs/tunnel.md` */
export function agentErrorAnswer(error: unknown): ErrorAnswer {
  return error instanceof TunnelRefusal ? tunnelRefusal(error.code) : oauthErrorAnswer(error);
}

function tunnelRefusal(code: TunnelRefusalCode): ErrorAnswer {
  switch (code) {
    case 'browser':
      return answer(403, 'forbidden', 'this is for agents, and no page may open it');
    case 'no_upgrade':
      return answer(426, 'invalid_request', 'this is a WebSocket', {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
      });
    case 'bad_subprotocol':
      return answer(400, 'invalid_request', 'Sec-WebSocket-Protocol must be latchkey-agent-1');
    case 'full':
      return answer(503, 'temporarily_unavailable', 'there is no room for this tunnel now', {
        'Retry-After': '5',
      });
  }
}

/** The status of a refusal of the HTTP framework's own, such as 413 for a body over the limit. */
function frameworkStatus(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined;
  const { statusCode } = error;
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500
    ? statusCode
    : undefined;
}

function frameworkWords(status: number): string {
  if (status === 413) return 'the body is too large';
  if (status === 415) return 'the body must be application/x-www-form-urlencoded';
  return 'the request cannot be read';
}

/** Whether the database could not be asked. `node:sqlite` marks its errors with this code. */
function isStoreFault(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR';
}

/** A page in the making. */
export interface ErrorPageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly page: ErrorPageData;
}

/** What a page says about a failure. */
export function pageErrorAnswer(error: unknown): ErrorPageAnswer {
  if (error instanceof PeopleRefusal) return refusalPage(error.code);
  if (error instanceof AdministrationRefusal) return administrationPage(error);
  const status = error instanceof OAuthRefusal ? statusOf(error.code) : frameworkStatus(error);
  if (status !== undefined) {
    return plainPage(
      status,
      'This cannot be read',
      'Something about the request is not as a browser sends it.',
    );
  }
  if (isStoreFault(error)) {
    const text =
      'The database does not answer at this moment. Nothing was changed; try again soon.';
    return { ...plainPage(503, 'Not available', text), headers: { 'Retry-After': '5' } };
  }
  return plainPage(
    500,
    'This did not work',
    'That is our fault, and the log of the server says why.',
  );
}

/** What the page says in place of a question that cannot be put. Nothing in it is the client's own. */
export function refusedRequestPage({ message }: OAuthRefusal): ErrorPageData {
  const text = `An application sent you here with a request that cannot be answered: ${message}. Nothing was allowed. Start again from the application; if this comes back, tell whoever makes it.`;
  return { heading: 'This request cannot be answered', text, next: undefined };
}

/** What a browser shows of an address that is none of ours. */
export function nowherePage(): ErrorPageData {
  const text = 'No page has this address. Check how it is written, or start at the dashboard.';
  const next = { text: 'To the dashboard', href: '/dashboard' };
  return { heading: 'There is nothing here', text, next };
}

/** What somebody sees who may not use the server that an application asks for. */
export function strangerPage(email: string, serverPath: string, back: string): ErrorPageData {
  const text = `You are signed in as ${email}, and that account cannot use ${serverPath}. Ask an owner of the organization to add you, or sign out, sign in with another account, and start again from the application.`;
  return {
    heading: 'This account has no access',
    text,
    next: { text: 'Back to the application', href: back },
  };
}

/** What a member sees whose browser has proved less than the organization asks for. */
export function secondFactorPage(serverPath: string): ErrorPageData {
  const [organization] = serverPath.split('/');
  const text = `The organization ${organization} lets nobody allow anything without a second factor. Set up an authenticator app or a passkey on your account page and sign in with it, then start again from the application.`;
  const next = { text: 'To your account', href: '/account#second-factor' };
  return { heading: 'A second factor is needed', text, next };
}

/** What a decision gets that comes twice, late, or from another browser. */
export function decidedPage(): ErrorPageData {
  const text =
    'This question was answered before, or it is too old, or another browser was asked. Start again from the application.';
  return { heading: 'Nothing was allowed', text, next: undefined };
}

function refusalPage(code: PeopleRefusalCode): ErrorPageAnswer {
  switch (code) {
    case 'busy': {
      const text = 'Many people sign in at this moment. Try again in a few seconds.';
      return { ...plainPage(503, 'Busy', text), headers: { 'Retry-After': '5' } };
    }
    case 'link_over':
      return plainPage(
        410,
        'This link is over',
        'It was used or taken back, it is too old, or a newer one took its place. Ask whoever gave it to you for a new one.',
      );
    case 'forged':
      return plainPage(
        403,
        'Nothing was changed',
        'The form did not come from a page that this browser has open now: it was too old, cookies are off, or another site sent it. Open the page again and repeat it.',
      );
    case 'proof_old':
      return plainPage(
        403,
        'Sign in again first',
        'Sign in again, then repeat it: changing how you sign in takes a sign-in within the last ten minutes.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'second_factor':
      return plainPage(
        403,
        'A second factor is needed',
        'This organization opens its pages to nobody without one. Set up an authenticator app or a passkey on your account page, and sign in with it.',
        { text: 'To your account', href: '/account#second-factor' },
      );
    case 'passkey_first':
      return plainPage(
        403,
        'Sign in with your passkey first',
        'Sign in with your passkey first, then repeat it: a password alone changes no other way to sign in. Where the passkey is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'provider_first':
      return plainPage(
        403,
        'Sign in with your linked account first',
        'Sign in with your linked account first, then repeat it: a password alone changes no other way to sign in. Where that account is lost, an administrator can reset your second factor.',
        { text: 'Sign in again', href: '/sign-in?again=1&next=/account' },
      );
    case 'enrolled':
      return plainPage(
        409,
        'Nothing was changed',
        'An authenticator app is set up already, or none waits for its first code. Look at your account and start again there.',
        { text: 'To your account', href: '/account' },
      );
    case 'sign_in_late':
      return plainPage(
        403,
        'Not signed in',
        'The code came more than five minutes after the password, or from another browser. Start again.',
      );
    case 'not_yours':
      return plainPage(
        404,
        'Nothing was changed',
        'What the form was about is not there, or not there any more.',
        { text: 'To your account', href: '/account' },
      );
    case 'passkey_unproven':
      return plainPage(
        403,
        'Not signed in',
        'The passkey was not recognised. Try again, or sign in otherwise.',
      );
    case 'state_unknown':
    case 'identity_unproven':
      return plainPage(
        403,
        'Not signed in',
        'The answer of the other service does not prove who you are. Try again, or sign in otherwise.',
      );
    case 'identity_taken':
      return plainPage(
        409,
        'Not linked',
        'Somebody else here signs in with that account. Unlink it there first, or use another one.',
      );
    case 'provider_unreachable':
      return plainPage(
        502,
        'Not signed in',
        'The other service does not answer at this moment. Try again soon, or sign in otherwise.',
      );
    case 'identity_unknown':
      return plainPage(
        403,
        'Not signed in',
        'Nobody here has linked that account. Sign in otherwise, then link it on your account page.',
      );
  }
}

function administrationPage({ code, message }: AdministrationRefusal): ErrorPageAnswer {
  const home = { text: 'To the dashboard', href: '/dashboard' };
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  switch (code) {
    case 'not_found': {
      const text =
        'It does not exist, it was removed, or this account may not see it. Follow the dashboard from its start.';
      return plainPage(404, 'There is nothing here', text, home);
    }
    case 'forbidden': {
      const text = `${sentence} Ask an owner or an admin of the organization to do it, or to change your role.`;
      return plainPage(403, 'Your role does not allow this', text, home);
    }
    case 'conflict':
      return plainPage(409, 'Nothing was changed', sentence, home);
    case 'invalid':
      return plainPage(422, 'Nothing was changed', sentence, home);
    case 'proof_old':
      return plainPage(403, 'Sign in again first', sentence, {
        text: 'Sign in again',
        href: '/sign-in?again=1&next=/dashboard',
      });
  }
}

function plainPage(
  status: number,
  heading: string,
  text: string,
  next = { text: 'To the sign-in page', href: '/sign-in' },
): ErrorPageAnswer {
  return { status, headers: {}, page: { heading, text, next } };
}
