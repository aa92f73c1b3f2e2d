import type { FastifyReply, FastifyRequest } from 'fastify';

import { hashSecret } from '#credentials/secret-format';
import { onwardPage } from '#pages/onward-page';
import { csrfToken } from '#people/csrf-token';
import { knownBrowserLifeSeconds } from '#people/known-browser-store';
import { rememberBrowser } from '#people/known-browser';
import { ownPath } from '#people/own-path';
import { sessionLifeSeconds, type Session } from '#people/session-store';
import { startSession } from '#people/start-session';
import { readCookie, setCookie } from './cookies.ts';
import type { PeoplePorts } from './people-ports.ts';
import { seeOther } from './see-other.ts';
import { sendPage } from './send-page.ts';
import { visitOf } from './visit.ts';

interface Ports {
  readonly base: string;
  readonly people: Pick<PeoplePorts, 'sessions' | 'knownBrowsers' | 'clock'>;
}

/**
 * Gives this browser a new session of a person, and says what guards its forms; the one that it had ends. From then on
 * the browser is known for that person.
 */
export async function signInBrowser(
  request: FastifyRequest,
  reply: FastifyReply,
  who: Pick<Session, 'userId' | 'factors'>,
  { base, people }: Ports,
): Promise<{ csrfToken: string }> {
  const { sessions, clock } = people;
  const before = readCookie(request.headers.cookie, 'latchkey', base);
  const old = before && (await sessions.use(hashSecret(before), clock.now()));
  if (old) await sessions.end(old.userId, old.id);
  const { sessionToken } = await startSession(who, visitOf(request), { sessions, clock });
  const life = { base, maxAgeSeconds: sessionLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey', sessionToken, life));
  const device = await rememberBrowser(who.userId, deviceTokenOf(request, base), people);
  const deviceLife = { base, maxAgeSeconds: knownBrowserLifeSeconds };
  void reply.header('Set-Cookie', setCookie('latchkey-device', device, deviceLife));
  return { csrfToken: csrfToken(sessionToken) };
}

/** What a browser has that somebody signed in with before, if we gave it this. */
export function deviceTokenOf({ headers }: FastifyRequest, base: string): string | undefined {
  return readCookie(headers.cookie, 'latchkey-device', base);
}

/** Leads on after a form: by a redirect among our own pages, by a page of its own where OAuth may follow. */
export function sendOnward(
  reply: FastifyReply,
  next: string | undefined,
  base: string,
): FastifyReply {
  const path = ownPath(next, base);
  if (path.startsWith('/oauth/'))
    return sendPage(reply, onwardPage, { heading: 'Signed in', path });
  return seeOther(reply, path);
}
