// The key of a person at an MCP server that requires one: sealed for the place that it was entered for, and added to that person's calls only.
import {
  findPersonKey,
  notePersonKeyAccepted,
  notePersonKeyRefused,
  type PersonKey,
} from '#db/person-keys';
import type { Db } from '#db/transaction';
import { discard } from '#gateway/answers';
import {
  UpstreamRefusal,
  type UpstreamRequest,
  type UpstreamAnswer,
  type UpstreamStep,
} from '#gateway/upstream';
import type { Clock } from '#model/clock';
import type { Target } from '#model/endpoints';
import { LimitedMap } from '#model/limited-map';
import { keyHeader, keyPlace, type PersonKeyRule } from '#model/person-keys';
import type { Sealing } from '#secrets/master-key';
import { accountPath } from './authorization-client.ts';

/** A target that requires a key of each person. */
export type KeyedTarget = Target & { readonly personKey: PersonKeyRule };

export function requiresKey(target: Target): target is KeyedTarget {
  return target.personKey !== undefined;
}

/** The purpose that a key is sealed for: one person, one server and one place, so that it opens for no other. */
export function keyPurpose({
  targetId,
  place,
  userId,
}: Pick<PersonKey, 'targetId' | 'place' | 'userId'>): string {
  return `person key ${targetId} ${place} ${userId}`;
}

export interface PersonKeysOptions {
  readonly base: string;
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  /** Called when the state of a key could not be noted. */
  readonly onError: (error: unknown) => void;
}

/** The key of one caller at one target. */
export interface CallerKey {
  readonly step: UpstreamStep;
  /** Whether the caller still has a key. */
  readonly isConnected: () => Promise<boolean>;
  /** The keys that were sent, which no record may contain. */
  readonly secrets: () => readonly string[];
}

/** How many people's keys, and how many keys of each person, are kept out of records. */
const [maxPeople, maxSecrets] = [10_000, 16];

/** Adds the key of the person who calls. The key is looked up for each request, so that a new key takes effect immediately. */
export class PersonKeys {
  readonly #options: PersonKeysOptions;
  /** The keys that were sent last for each person. */
  readonly #sent = new LimitedMap<string, readonly string[]>(maxPeople);

  constructor(options: PersonKeysOptions) {
    this.#options = options;
  }

  /** The key for calls of this person; a caller that is no person has none. */
  of(target: KeyedTarget, userId: string | undefined): CallerKey {
    return {
      step: (request, next) => {
        if (userId === undefined) throw new UpstreamRefusal('no_person', this.#pageOf(target));
        return this.#send(request, next, { target, userId });
      },
      isConnected: async () =>
        userId !== undefined && (await this.#find(target, userId)) !== undefined,
      secrets: () => this.secretsOf(userId),
    };
  }

  /** The keys that were sent last for a person, to any server: a collection may have called several. */
  secretsOf(userId: string | undefined): readonly string[] {
    return (userId !== undefined && this.#sent.get(userId)) || [];
  }

  #noteSent(userId: string, key: string): void {
    const known = this.secretsOf(userId);
    if (known.at(-1) === key) return;
    const others = known.filter((one) => one !== key);
    this.#sent.set(userId, [...others, key].slice(-maxSecrets));
  }

  async #send(
    request: UpstreamRequest,
    next: (request: UpstreamRequest) => Promise<UpstreamAnswer>,
    { target, userId }: { target: KeyedTarget; userId: string },
  ): Promise<UpstreamAnswer> {
    const { db, sealing, clock, onError } = this.#options;
    const found = await this.#find(target, userId);
    if (!found) throw new UpstreamRefusal('key_missing', this.#pageOf(target));
    const sendWith = (sealed: string) => {
      const key = sealing.open(keyPurpose(found), sealed);
      this.#noteSent(userId, key);
      return next(withKey(request, target, key));
    };
    const answer = await sendWith(found.sealedKey);
    if (!isRefusal(answer)) {
      notePersonKeyAccepted(db, found, clock.now()).catch(onError);
      return answer;
    }
    await discard(answer.body);
    notePersonKeyRefused(db, found, clock.now()).catch(onError);
    // The previous key is tried, because an unproved new key must not replace one that works. An upstream that refuses a request has
    // done nothing. After a 403, the new key stays: it may have fewer permissions on purpose.
    const isUnknown = answer.status === 401;
    const again = isUnknown && found.sealedPrevious && (await sendWith(found.sealedPrevious));
    if (again && !isRefusal(again)) return again;
    if (again) await discard(again.body);
    throw new UpstreamRefusal('key_refused', this.#pageOf(target));
  }

  /** The key, unless it was entered for another place. */
  async #find(target: KeyedTarget, userId: string): Promise<PersonKey | undefined> {
    const found = await findPersonKey(this.#options.db, { targetId: target.id, userId });
    return found?.place === keyPlace(target.upstream) ? found : undefined;
  }

  #pageOf(target: Target): string {
    return this.#options.base + accountPath(target);
  }
}

/** A step that sends this key, which is not stored yet. */
export function triedKeyStep(target: KeyedTarget, key: string): UpstreamStep {
  return (request, next) => next(withKey(request, target, key));
}

function isRefusal({ status }: UpstreamAnswer): boolean {
  return status === 401 || status === 403;
}

/** A key never replaces a header of the gateway. To an agent, it goes apart from the headers, because those reach commands, too. */
function withKey(request: UpstreamRequest, target: KeyedTarget, key: string): UpstreamRequest {
  const header = keyHeader(target.personKey, key);
  if (target.upstream.kind === 'agent') return { ...request, key: header };
  return { ...request, headers: { [header.name]: header.value, ...request.headers } };
}
