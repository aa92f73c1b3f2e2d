import type { FastifyInstance, FastifyRequest } from 'fastify';

import { parseForm, type Form } from '#oauth/form';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { isCsrfToken } from '#people/csrf-token';
import { PeopleRefusal } from '#people/people-refusal';
import { readCookie } from './cookies.ts';

const usualFormBytes = 16 * 1024;

/** Lets the routes of `app` have their bodies whole, for `readPageForm` to read strictly. */
export function takeForms(app: FastifyInstance, maxFormBytes = usualFormBytes): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: maxFormBytes },
    (_request, body, done) => done(null, body),
  );
}

/**
 * The fields of a form that one of our pages sent to `person`, or, where none is given, to this browser
 * before anybody was signed in. Every request that changes something comes through here, or through
 * `checkOrigin` and `checkToken`.
 *
 * @throws {PeopleRefusal} `forged`
 * @throws {OAuthRefusal} `invalid_request` when the body is not a form
 */
export function readPageForm(
  request: FastifyRequest,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): Form {
  checkOrigin(request, base);
  const form = parseForm(request.headers['content-type'], bodyOf(request));
  checkToken(request, form.get('csrf_token'), base, person);
  return form;
}

/** @throws {PeopleRefusal} `forged` unless the token is the one that our pages have for this person or browser. */
export function checkToken(
  request: FastifyRequest,
  token: string | undefined,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): void {
  const mine = person?.sessionToken ?? readCookie(request.headers.cookie, 'latchkey-browser', base);
  if (mine === undefined) throw new PeopleRefusal('forged', 'no cookie');
  if (!isCsrfToken(token, mine)) {
    throw new PeopleRefusal('forged', 'token absent or of another session');
  }
}

/** @throws {PeopleRefusal} `forged` when a browser says that another site sent this. Fetch Metadata §2.4 */
export function checkOrigin({ headers }: FastifyRequest, base: string): void {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  if (origin !== undefined && origin !== base) throw new PeopleRefusal('forged', 'foreign origin');
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new PeopleRefusal('forged', 'sent by another site');
  }
}

export function bodyOf({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
}

/**
 * The members of a JSON body that our own script sent, its token in `X-CSRF-Token`.
 *
 * @throws {PeopleRefusal} `forged`
 * @throws {OAuthRefusal} `invalid_request`
 */
export function readPageJson(
  request: FastifyRequest,
  base: string,
  person: { readonly sessionToken: string } | undefined,
): Readonly<Record<string, unknown>> {
  checkOrigin(request, base);
  const token = request.headers['x-csrf-token'];
  checkToken(request, typeof token === 'string' ? token : undefined, base, person);
  try {
    const value: unknown = JSON.parse(bodyOf(request).toString('utf8'));
    if (typeof value === 'object' && value !== null) return { ...value };
  } catch {
    // What is no JSON is told the same as what is no object.
  }
  throw new OAuthRefusal('invalid_request', 'the body is not a JSON object');
}
