import type { FastifyReply, FastifyRequest } from 'fastify';

import { csrfToken } from '#people/csrf-token';
import { randomToken } from '#people/start-session';
import { readCookie, setCookie } from './cookies.ts';

const cookieSeconds = 24 * 60 * 60;

/** The secret by which we know a browser again before anybody is signed in; given to it if it has none. */
export function browserToken(request: FastifyRequest, reply: FastifyReply, base: string): string {
  const known = readCookie(request.headers.cookie, 'latchkey-browser', base);
  const token = known ?? randomToken();
  const cookie = setCookie('latchkey-browser', token, { base, maxAgeSeconds: cookieSeconds });
  if (known === undefined) void reply.header('Set-Cookie', cookie);
  return token;
}

/** What guards the forms of a page for somebody who is not signed in. */
export function browserCsrfToken(
  request: FastifyRequest,
  reply: FastifyReply,
  base: string,
): string {
  return csrfToken(browserToken(request, reply, base));
}
