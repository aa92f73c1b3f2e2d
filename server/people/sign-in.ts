import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { AttemptStore } from './attempt-store.ts';
import { accountSubject, beginGuess } from './guess-limit.ts';
import type { KnownBrowserStore } from './known-browser-store.ts';
import { placeOf } from './known-browser.ts';
import type { PasswordHashing } from './password-hashing.ts';
import type { PasswordStore } from './password-store.ts';
import type { User, UserStore } from './user.ts';
import type { Visit } from './visit.ts';

export interface SignInPorts {
  readonly users: Pick<UserStore, 'byEmail'>;
  readonly passwords: Pick<PasswordStore, 'hashOf'>;
  readonly attempts: AttemptStore;
  readonly knownBrowsers: Pick<KnownBrowserStore, 'people'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly hashing: PasswordHashing;
  readonly clock: Clock;
}

export type SignIn =
  | { readonly outcome: 'signed-in'; readonly user: User }
  /** Wrong password, unknown address, or an account without a password: nobody can tell which. */
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'wait'; readonly waitSeconds: number };

/**
 * Who has this address and this password. Says no as slowly, and with the same words, for an address that
 * nobody has.
 */
export async function signIn(
  {
    email,
    password,
    deviceToken,
  }: { email: string; password: string; deviceToken: string | undefined },
  { address, requestId }: Visit,
  { users, passwords, attempts, knownBrowsers, audit, hashing, clock }: SignInPorts,
): Promise<SignIn> {
  const now = clock.now();
  const user = await users.byEmail(email);
  const place = await placeOf(user?.id, { address, deviceToken }, { knownBrowsers, now });
  const guess = await beginGuess({ subject: accountSubject(email), place }, { attempts, now });
  if (guess.waitSeconds > 0) return { outcome: 'wait', waitSeconds: guess.waitSeconds };
  const hash = user && (await passwords.hashOf(user.id));
  const isEqual = await hashing.verify(password, hash);
  // Checking takes its turn, and the password may have been replaced meanwhile.
  const isRight = isEqual && user !== undefined && (await passwords.hashOf(user.id)) === hash;
  const outcome = user && isRight ? 'done' : 'refused';
  await audit.append({
    at: now,
    actor: user ? `user:${user.id}` : 'nobody',
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
