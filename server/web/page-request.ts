import type { FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import { isCsrfToken } from '#accounts/sessions';
import { type Form, parseForm, parseJsonObject } from '#oauth/forms';
import type { DashboardFrame, Page } from './layout.ts';

/** The cookies of our pages: the session, the browser before sign-in, and the browser known from earlier sign-ins. */
type CookieName = 'latchkey' | 'latchkey-browser' | 'latchkey-device';

/**
 * The name of a cookie under this public URL. A `__Host-` cookie cannot be set by a sibling domain or over plain
 * HTTP. Browsers accept it on https and on http://127.0.0.1, and drop it on other loopback hosts. RFC 6265bis §4.1.3
 */
export function cookieName(name: CookieName, base: string): string {
  return isTrusted(base) ? `__Host-${name}` : name;
}

/** The value of a cookie; `undefined` if it is absent or present twice, in which case one is not ours. */
export function readCookie(
  header: string | undefined,
  name: CookieName,
  base: string,
): string | undefined {
  const prefix = `${cookieName(name, base)}=`;
  const [value, ...more] = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(prefix));
  if (value === undefined || more.length > 0) return undefined;
  const token = value.slice(prefix.length);
  return /^[\w-]{32}$/.test(token) ? token : undefined;
}

/** A `Set-Cookie` header. `maxAgeSeconds` 0 deletes the cookie. */
export function setCookie(
  name: CookieName,
  value: string,
  { base, maxAgeSeconds }: { base: string; maxAgeSeconds: number },
): string {
  const secure = isTrusted(base) ? '; Secure' : '';
  const age = `; Max-Age=${maxAgeSeconds}`;
  return `${cookieName(name, base)}=${value}; Path=/; HttpOnly; SameSite=Lax${secure}${age}`;
}

function isTrusted(base: string): boolean {
  const { protocol, hostname } = new URL(base);
  return protocol === 'https:' || hostname === '127.0.0.1';
}

/** The most bytes of a form, on most pages. */
export const usualFormBytes = 16 * 1024;

/** The most fields of a form of ours. Forms with many checkboxes, for tools and groups, send only the checked ones. */
const mostFormFields = 2000;

/**
 * The fields of a form that a page of ours sent to `person` or, without one, to this browser before sign-in. Every
 * request that changes something goes through here, or through `checkOrigin` and `checkToken`.
 *
 * @throws {AccountRefusal} `csrf_invalid`
 * @throws {OAuthError} `invalid_request` if the body is not a form
 */
export function readPageForm(
  request: FastifyRequest,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): Form {
  checkOrigin(request, base);
  const form = parseForm(request.headers['content-type'], bodyOf(request), mostFormFields);
  checkToken(request, form.get('csrf_token'), base, person);
  return form;
}

/** @throws {AccountRefusal} `csrf_invalid` unless the token is that of this person or browser */
function checkToken(
  request: FastifyRequest,
  token: string | undefined,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): void {
  const mine = person?.sessionToken ?? readCookie(request.headers.cookie, 'latchkey-browser', base);
  if (mine === undefined) throw new AccountRefusal('csrf_invalid', 'no cookie');
  if (!isCsrfToken(token, mine)) {
    throw new AccountRefusal('csrf_invalid', 'token absent or of another session');
  }
}

/** @throws {AccountRefusal} `csrf_invalid` if the browser says that another site sent this. Fetch Metadata §2.4 */
function checkOrigin({ headers }: FastifyRequest, base: string): void {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  if (origin !== undefined && origin !== base)
    throw new AccountRefusal('csrf_invalid', 'foreign origin');
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new AccountRefusal('csrf_invalid', 'sent by another site');
  }
}

export function bodyOf({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
}

/**
 * The members of a JSON body that a script of ours sent, with the CSRF token in `X-CSRF-Token`.
 *
 * @throws {AccountRefusal} `csrf_invalid`
 * @throws {OAuthError} `invalid_request`
 */
export function readPageJson(
  request: FastifyRequest,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): Readonly<Record<string, unknown>> {
  checkOrigin(request, base);
  const token = request.headers['x-csrf-token'];
  checkToken(request, typeof token === 'string' ? token : undefined, base, person);
  return parseJsonObject(bodyOf(request));
}

/** A query parameter that is present exactly once. */
export function queryText(
  { query }: Pick<FastifyRequest, 'query'>,
  name: string,
): string | undefined {
  if (typeof query !== 'object' || query === null) return undefined;
  const value: unknown = Reflect.get(query, name);
  return typeof value === 'string' ? value : undefined;
}

/** The member of `choices` that a query parameter names. A link can contain any value, even the name of a method that every object has. */
export function queryChoice<Choice>(
  request: Pick<FastifyRequest, 'query'>,
  name: string,
  choices: Readonly<Record<string, Choice>>,
): Choice | undefined {
  const chosen = queryText(request, name);
  return chosen !== undefined && Object.hasOwn(choices, chosen) ? choices[chosen] : undefined;
}

/**
 * Redirects to one of our own pages with a GET. Never cached, because it answers what a person just did.
 *
 * RFC 9110 §15.4.4
 */
export function seeOther(reply: FastifyReply, path: string): FastifyReply {
  return reply.header('Cache-Control', 'no-store').redirect(path, 303);
}

/** Options of a response that is a page; all have defaults. */
export interface PageOptions {
  /** Default 422 if the data of the page has `errors`, which a form shows, otherwise 200. */
  readonly status?: number | undefined;
  /** The signed-in person, for the header and the CSRF token of the forms. See `current-person.ts`. */
  readonly person?: { readonly user: { readonly email: string }; readonly csrfToken: string };
  /** The CSRF token of forms before sign-in. */
  readonly csrfToken?: string;
  /** Paths of our ES modules. */
  readonly scripts?: readonly string[];
  /**
   * Where the response to a form may redirect besides this server, as `https://app.example` or `cursor:`. A browser
   * checks the whole chain of redirects. CSP 3 §6.4.1.1
   */
  readonly formAction?: string;
  /** The stream that announces changes to the live parts of the page. */
  readonly live?: string | undefined;
  /** The page's place in the dashboard. */
  readonly dashboard?: DashboardFrame | undefined;
}

/** Sends a page that may load, frame and submit only to this server. Never cached. */
export function sendPage<Data extends object>(
  reply: FastifyReply,
  page: Page<Data>,
  data: Data,
  options: PageOptions = {},
): FastifyReply {
  const { person, csrfToken, scripts = [], formAction, live, dashboard } = options;
  const { status = hasErrors(data) ? 422 : 200 } = options;
  const html = page(data, {
    requestId: status >= 400 && status !== 422 ? reply.request.id : undefined,
    scripts,
    csrfToken: person?.csrfToken ?? csrfToken,
    email: person?.user.email,
    live,
    dashboard,
  });
  return reply.code(status).headers(pageHeaders(formAction)).send(html.toString());
}

function hasErrors(data: object): boolean {
  return 'errors' in data && Array.isArray(data.errors) && data.errors.length > 0;
}

function pageHeaders(formAction: string | undefined): Record<string, string> {
  if (formAction !== undefined && /[\s;,']/.test(formAction)) {
    throw new TypeError('a form-action source with a separator in it');
  }
  const policy = [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self' data:",
    "script-src 'self'",
    "connect-src 'self'",
    `form-action 'self'${formAction === undefined ? '' : ` ${formAction}`}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy.join('; '),
    'X-Frame-Options': 'DENY',
    // `no-referrer` would make browsers send `Origin: null` with our own forms. Fetch §3.2
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
}

/** Whether the caller has this content cached. RFC 9110 §13.1.2 */
export function isCached({ headers }: Pick<FastifyRequest, 'headers'>, tag: string): boolean {
  const tags = headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, ''));
  return tags?.some((one) => one === '*' || one === `"${tag}"`) ?? false;
}
