import type { FastifyRequest } from 'fastify';

import type { Clock } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import { csrfToken } from '#people/csrf-token';
import type { Session, SessionStore } from '#people/session-store';
import type { User, UserStore } from '#people/user';
import { readCookie } from './cookies.ts';

/** Who looks at a page. */
export interface CurrentPerson {
  readonly user: User;
  readonly session: Session;
  /** The value of the cookie; never leaves the server but as that. */
  readonly sessionToken: string;
  /** Goes into the forms of the page; `readPageForm` demands it back. */
  readonly csrfToken: string;
}

/** The person behind a request's cookie; `undefined` when nobody is signed in. */
export type CurrentPersonOf = (request: FastifyRequest) => Promise<CurrentPerson | undefined>;

export interface CurrentPersonPorts {
  readonly users: Pick<UserStore, 'byId'>;
  readonly sessions: Pick<SessionStore, 'use'>;
  readonly clock: Clock;
}

/** Reads who is signed in, anew for each request, so that an ended session ends at once. */
export function currentPersonOf(
  base: string,
  { users, sessions, clock }: CurrentPersonPorts,
): CurrentPersonOf {
  return async ({ headers }) => {
    const sessionToken = readCookie(headers.cookie, 'latchkey', base);
    if (sessionToken === undefined) return undefined;
    const session = await sessions.use(hashSecret(sessionToken), clock.now());
    const user = session && (await users.byId(session.userId));
    return user && { user, session, sessionToken, csrfToken: csrfToken(sessionToken) };
  };
}
