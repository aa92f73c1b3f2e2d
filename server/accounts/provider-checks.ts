import { randomUUID } from 'node:crypto';

import { findProvider, type ProviderRecord } from '#db/identity-providers';
import { hasActiveGrant } from '#db/person-grants';
import {
  claimCheck,
  deleteCheck,
  listDueChecks,
  noteCheckFailed,
  noteCheckPassed,
  postponeCheck,
  type ProviderCheck,
} from '#db/provider-checks';
import { listPersonalTokens } from '#db/personal-tokens';
import {
  findPersonAt,
  hasSessionAt,
  insertLogout,
  lockPlace,
  placeKey,
  type SignInPlace,
} from '#db/provider-sessions';
import { transaction, type Db } from '#db/transaction';
import { backOffs, pauseMs } from '#model/back-off';
import type { Clock, EpochSeconds } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import type { ProviderChecking } from '#model/provider-checks';
import type { Sealing } from '#secrets/master-key';
import type { IdentityProvider } from './openid-provider.ts';
import { endAccess, type NamedPlace } from './provider-logouts.ts';
import { checkPurpose } from './sessions.ts';

const lookEveryMs = 5000;
/** How many checks a round begins. */
const mostOfRound = 200;
/** How many checks of a round may be for one provider. It takes no part in a round while its earlier checks are in progress. */
const shareOfProvider = 20;
/** How many people are checked at one provider at a time. */
const mostOfProvider = 4;
const mostRemembered = 1000;
/** Longer than a token request takes. After this time, another process repeats the check of a dead process. */
const claimSeconds = 60;
/** How long after an unclear refusal a provider is asked again, so that a short fault there removes no one. */
const secondRefusalSeconds = 300;

type Client = Pick<IdentityProvider, 'issuer' | 'ask' | 'checking'>;

export interface ProviderChecksPorts {
  readonly db: Db;
  readonly clientOf: (provider: ProviderRecord) => Client;
  /** The provider of the installation. */
  readonly identityProvider: Client | undefined;
  readonly sealing: Pick<Sealing, 'seal' | 'open'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly failed: (error: unknown) => void;
}

/** A provider that people are checked at. */
interface CheckedPlace extends NamedPlace {
  readonly client: Client;
}

/**
 * Checks people again at the provider that they came through, with the refresh token of their last sign-in there. A person who was removed
 * loses their sessions through the provider, and the access of applications. A provider that does not answer removes no one: the check is
 * repeated with growing pauses. A provider that refuses a token without saying why removes the person only if it does so twice.
 *
 * Each check is claimed by one process, because a refresh token that the provider replaces can be used only once. If the answer with the
 * new token is lost, the provider refuses the next check, and the person has to sign in again.
 */
export class ProviderChecks {
  readonly #ports: ProviderChecksPorts;
  readonly #timer: NodeJS.Timeout;
  /** Providers that did not answer: until when they are not asked again, and how often they failed. */
  readonly #resting = new LimitedMap<string, { until: EpochSeconds; failures: number }>(
    mostRemembered,
  );
  /** The providers with checks in progress. */
  readonly #busy = new Set<string>();
  /** The rounds in progress: several, because each lasts as long as its slowest provider. */
  readonly #rounds = new Set<Promise<void>>();
  /** The round that is reading the due checks. */
  #reading: Promise<void> | undefined;
  #isClosed = false;

  constructor(ports: ProviderChecksPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => void this.run(), lookEveryMs).unref();
  }

  /** Runs one round, beside those in progress; never rejects. */
  run(): Promise<void> {
    // Only one round at a time reads the due checks.
    if (this.#reading) return this.#reading;
    const round: Promise<void> = this.#round()
      .catch((error: unknown) => this.#ports.failed(error))
      .finally(() => this.#rounds.delete(round));
    this.#rounds.add(round);
    this.#reading = round;
    return round;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#isClosed = true;
    await Promise.all(this.#rounds);
  }

  async #round(): Promise<void> {
    const { db, clock } = this.#ports;
    const now = clock.now();
    const resting = [...this.#resting].filter(([, { until }]) => until > now).map(([key]) => key);
    const except = [...resting, ...this.#busy];
    const most = { share: shareOfProvider, limit: mostOfRound };
    const due = await listDueChecks(db, { now, except, ...most }).finally(() => {
      this.#reading = undefined;
    });
    const byProvider = Map.groupBy(due, ({ place }) => placeKey(place));
    const begun = [...byProvider].filter(([key]) => !this.#busy.has(key));
    await Promise.all(begun.map(([key, checks]) => this.#runAt(key, checks)));
  }

  async #runAt(key: string, checks: readonly ProviderCheck[]): Promise<void> {
    this.#busy.add(key);
    try {
      this.#rest(key, (await this.#checkAt(checks)) === 'silent');
    } catch (error) {
      this.#ports.failed(error);
      this.#rest(key, true);
    } finally {
      this.#busy.delete(key);
    }
  }

  /** Stops asking a provider for a while if it did not answer or cannot be asked (`isNeeded`); otherwise forgets its failures. */
  #rest(key: string, isNeeded: boolean): void {
    const failures = (this.#resting.get(key)?.failures ?? 0) + 1;
    const until = this.#ports.clock.now() + this.#pauseSeconds(failures);
    if (isNeeded) this.#resting.set(key, { until, failures });
    else this.#resting.delete(key);
  }

  /** Checks people of one provider, a few at a time, until it does not answer. */
  async #checkAt(checks: readonly ProviderCheck[]): Promise<'answered' | 'silent'> {
    const [first] = checks;
    const at = first && (await this.#placeOf(first.place));
    if (!at) return 'silent';
    const waiting = [...checks];
    let isSilent = false;
    const work = async () => {
      for (let next = waiting.shift(); next && !isSilent; next = waiting.shift()) {
        if (this.#isClosed) return;
        const outcome = await this.#check(next, at).catch((error: unknown) => {
          // The claim of the check stays until it expires, so that the check is not repeated immediately.
          this.#ports.failed(error);
          return 'answered' as const;
        });
        if (outcome === 'unreachable') isSilent = true;
      }
    };
    await Promise.all(Array.from({ length: mostOfProvider }, work));
    return isSilent ? 'silent' : 'answered';
  }

  async #placeOf(place: SignInPlace): Promise<CheckedPlace | undefined> {
    const { db, clientOf, identityProvider } = this.#ports;
    if (place.type === 'installation') {
      // The operator may have configured another provider since, or none.
      if (identityProvider?.issuer !== place.issuer) return undefined;
      return { place, organization: undefined, client: identityProvider };
    }
    const provider = await findProvider(db, place.providerId);
    if (!provider) return undefined;
    const { organization } = provider;
    return { place, organization, client: clientOf(provider) };
  }

  async #check(check: ProviderCheck, at: CheckedPlace): Promise<'answered' | 'unreachable'> {
    const { db, clock } = this.#ports;
    const { subject } = check;
    const now = clock.now();
    if (!(await claimCheck(db, check, { now, until: now + claimSeconds }))) return 'answered';
    const userId = await findPersonAt(db, at.place, subject);
    if (userId === undefined) return 'answered';
    const laterAt = await this.#laterAt(check, userId, at);
    if (laterAt > now) {
      await postponeCheck(db, check, laterAt);
      return 'answered';
    }
    const purpose = checkPurpose(placeKey(at.place), subject);
    const answer = await at.client.ask(
      this.#ports.sealing.open(purpose, check.sealedToken),
      subject,
    );
    const times = { now: clock.now(), nextAt: clock.now() + sessionSeconds(at.client.checking) };
    switch (answer.outcome) {
      case 'known': {
        const { refreshToken } = answer;
        const sealedToken = refreshToken && this.#ports.sealing.seal(purpose, refreshToken);
        await noteCheckPassed(db, check, { ...times, sealedToken });
        return 'answered';
      }
      case 'refused': {
        if (check.failure === answer.outcome) return this.#remove(check, userId, at);
        const nextAt = times.now + secondRefusalSeconds;
        await noteCheckFailed(db, check, { failure: answer.outcome, now: times.now, nextAt });
        return 'answered';
      }
      case 'removed':
        return this.#remove(check, userId, at);
      case 'failed': {
        const { code } = answer.fault;
        const nextAt = times.now + this.#pauseSeconds(check.attempts + 1);
        await noteCheckFailed(db, check, { failure: code, now: times.now, nextAt });
        return code === 'unreachable' ? 'unreachable' : 'answered';
      }
    }
  }

  /** Ends the access of a person who was removed at a provider, unless they have signed in again meanwhile. */
  async #remove(check: ProviderCheck, userId: string, at: CheckedPlace): Promise<'answered'> {
    const { db, clock } = this.#ports;
    const { subject } = check;
    await transaction(db, async (tx) => {
      const now = clock.now();
      await lockPlace(tx, at.place);
      if (!(await deleteCheck(tx, check))) return;
      // Because of this logout, assertions that the provider issued earlier are refused.
      const logout = { tokenId: `check_${randomUUID()}`, subject, issuedAt: now };
      await insertLogout(tx, at.place, { ...logout, expiresAt: now }, now);
      await endAccess(at, userId, 'lose-person', { db: tx, clock });
    });
    return 'answered';
  }

  /** When a person must be checked: after `sessionCheckMinutes` with a session, after `grantCheckHours` with applications or tokens only. */
  async #laterAt(
    { checkedAt, attempts }: ProviderCheck,
    userId: string,
    { place, client: { checking } }: CheckedPlace,
  ): Promise<EpochSeconds> {
    const { db, clock } = this.#ports;
    const now = clock.now();
    // A check that failed is repeated when the pause is over.
    if (attempts > 0) return now;
    const soonAt = now + sessionSeconds(checking);
    if (await hasSessionAt(db, place, userId, now)) {
      return Math.min(soonAt, checkedAt + sessionSeconds(checking));
    }
    const within = place.type === 'organization' ? place.organizationId : undefined;
    const hasAccess =
      (await hasActiveGrant(db, userId, now, within)) ||
      (place.type === 'installation' && (await hasPersonalToken(db, userId, now)));
    if (!hasAccess) return soonAt;
    return Math.min(soonAt, checkedAt + checking.grantCheckHours * 3600);
  }

  #pauseSeconds(failures: number): number {
    return Math.ceil(pauseMs(backOffs.providerCheck, failures, this.#ports.random) / 1000);
  }
}

async function hasPersonalToken(db: Db, userId: string, now: EpochSeconds): Promise<boolean> {
  const tokens = await listPersonalTokens(db, userId);
  return tokens.some(({ revokedAt, expiresAt }) => revokedAt === undefined && expiresAt > now);
}

const sessionSeconds = ({ sessionCheckMinutes }: ProviderChecking) => sessionCheckMinutes * 60;
