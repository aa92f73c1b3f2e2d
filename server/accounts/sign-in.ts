import { insertAuditEvent } from '#db/audit';
import type { Clock } from '#model/clock';
import { findPasswordHash } from '#db/authenticators';
import { findUserByEmail, type User } from '#db/people';
import type { Db } from '#db/transaction';
import { networksOf } from '#model/networks';
import { accountSubject, beginGuess, isNetwork, placeOf } from './guess-limit.ts';
import type { PasswordHashing } from './passwords.ts';
import type { Visit } from './sessions.ts';
import { knownPerson } from './hashing-queue.ts';

export interface SignInPorts {
  readonly db: Db;
  readonly hashing: PasswordHashing;
  readonly clock: Clock;
}

export type SignIn =
  | { readonly outcome: 'signed-in'; readonly user: User }
  /** Wrong password, unknown address, or an account without a password. Deliberately not distinguished. */
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'wait'; readonly waitSeconds: number };

/** Checks an e-mail address and a password. An unknown address gets the same result after the same time as a wrong password. */
export async function signIn(
  {
    email,
    password,
    deviceToken,
  }: { email: string; password: string; deviceToken: string | undefined },
  { address, requestId }: Visit,
  { db, hashing, clock }: SignInPorts,
): Promise<SignIn> {
  const now = clock.now();
  const user = await findUserByEmail(db, email);
  const place = await placeOf(user?.id, { address, deviceToken }, { db, now });
  const guess = await beginGuess({ subject: accountSubject(email), place }, { db, now });
  if (guess.waitSeconds > 0) return { outcome: 'wait', waitSeconds: guess.waitSeconds };
  const hash = user && (await findPasswordHash(db, user.id));
  const isKnown = user !== undefined && !isNetwork(place);
  const whose = isKnown ? knownPerson(user) : { network: networksOf(address).at(-1) ?? '' };
  const isEqual = await hashing.verify(password, hash, whose);
  // The check waited in a queue, and the password may have been replaced in the meantime.
  const isRight = isEqual && user !== undefined && (await findPasswordHash(db, user.id)) === hash;
  const outcome = user && isRight ? 'done' : 'refused';
  await insertAuditEvent(db, {
    at: now,
    actor: user ? `user:${user.id}` : 'anonymous',
    organization: undefined,
    action: 'sign-in',
    target: 'password',
    address,
    requestId,
    outcome,
  });
  if (!user || !isRight) return { outcome: 'refused' };
  await guess.succeeded();
  return { outcome: 'signed-in', user };
}

/**
 * Where to go after a sign-in: `text` if it is a path of this server, otherwise the start page. Browsers parse `//evil`,
 * `/\evil` and slashes with a tab between them as another host. WHATWG URL §4.4
 */
export function ownPath(text: string | undefined, base: string): string {
  const start = '/';
  if (text === undefined || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return start;
  const url = URL.canParse(text, base) ? new URL(text, base) : undefined;
  return url?.origin === base ? text : start;
}
