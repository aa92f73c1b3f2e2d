import type { User } from '#db/people';
import { emailKey } from '#model/email';
import { AccountRefusal } from './account-refusal.ts';

const mostAtOnce = 2;
/** How many hashes may wait for all known people, how many for all networks, and how many for one person or network. */
const mostWaiting = 100;
const mostOfOne = 25;

/**
 * For whom a password is hashed: a person whose browser, session or link is known, or any caller from a network. People with the
 * same `of` share their turns, so that the accounts of one company do not delay those of another.
 */
export type HashedFor =
  | { readonly known: string; readonly of?: string }
  | { readonly network: string };

/** A person whose browser, session or link is known. The people of a company usually share the domain of their addresses. */
export function knownPerson({ id, email }: Pick<User, 'id' | 'email'>): HashedFor {
  return { known: id, of: emailKey(email).split('@').at(-1) ?? '' };
}

interface Turn {
  readonly begin: () => void;
  readonly refuse: (error: AccountRefusal) => void;
}

/**
 * Computes two hashes at a time, in fair order: three of four turns are for known people, as long as any wait. Companies take
 * turns among themselves, and so do the people of each, and networks. A guesser therefore delays only other callers from the same
 * network, and a person only people of the same company.
 */
export class HashingQueue {
  readonly #known = new WaitingTurns();
  readonly #unknown = new WaitingTurns();
  #working = 0;
  #turns = 0;

  /** @throws {AccountRefusal} `busy` when 25 wait for this person or network, or a hundred in all and no other has more */
  async run<Result>(whose: HashedFor, work: () => Promise<Result>): Promise<Result> {
    if (this.#working < mostAtOnce) this.#working += 1;
    else await this.#turn(whose);
    try {
      return await work();
    } finally {
      // The slot passes directly to the next turn, so that no later caller can take it.
      const next = this.#next();
      if (next) next.begin();
      else this.#working -= 1;
    }
  }

  #turn(whose: HashedFor): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const turn = { begin: resolve, refuse: reject };
    if ('known' in whose) this.#known.add(turn, whose.known, whose.of ?? whose.known);
    else this.#unknown.add(turn, whose.network, whose.network);
    return promise;
  }

  #next(): Turn | undefined {
    this.#turns += 1;
    const isForUnknown = this.#turns % 4 === 0;
    const [first, second] = isForUnknown
      ? [this.#unknown, this.#known]
      : [this.#known, this.#unknown];
    return first.take() ?? second.take();
  }
}

/** The waiting turns, by group and then by the name of the person or network, both in the order of their turns. */
class WaitingTurns {
  readonly #groups = new Map<string, Map<string, Turn[]>>();

  /** @throws {AccountRefusal} `busy` */
  add(turn: Turn, name: string, group: string): void {
    const all = this.#groups.get(group) ?? new Map<string, Turn[]>();
    const mine = all.get(name) ?? [];
    if (mine.length >= mostOfOne) throw new AccountRefusal('busy', `${mostOfOne} of one wait`);
    const size = [...this.#groups.values()].reduce((total, one) => total + sizeOf(one), 0);
    if (size >= mostWaiting) this.#makeRoom(all, mine.length);
    this.#groups.set(group, all.set(name, [...mine, turn]));
  }

  /** Removes the next turn. Its name moves to the end of its group, and the group to the end of the queue. */
  take(): Turn | undefined {
    const [entry] = this.#groups;
    if (!entry) return undefined;
    const [group, names] = entry;
    this.#groups.delete(group);
    const [first] = names;
    if (!first) return this.take();
    const [name, [next, ...others]] = first;
    names.delete(name);
    if (others.length > 0) names.set(name, others);
    if (names.size > 0) this.#groups.set(group, names);
    return next;
  }

  /** Refuses the latest turn of the busiest name in the largest group, if it then still has as many as the new turn's group or name. */
  #makeRoom(own: ReadonlyMap<string, Turn[]>, mine: number): void {
    const [group, largest] = [...this.#groups].reduce((one, other) =>
      sizeOf(other[1]) > sizeOf(one[1]) ? other : one,
    );
    const [name, most] = [...largest].reduce((one, other) =>
      other[1].length > one[1].length ? other : one,
    );
    const hasMore =
      largest === own || sizeOf(largest) === sizeOf(own)
        ? most.length > mine + 1
        : sizeOf(largest) > sizeOf(own) + 1;
    if (!hasMore) throw new AccountRefusal('busy', `${mostWaiting} wait`);
    most.pop()?.refuse(new AccountRefusal('busy', 'others have fewer that wait'));
    // A name without a turn would be taken for the end of the queue.
    if (most.length === 0) largest.delete(name);
    if (largest.size === 0) this.#groups.delete(group);
  }
}

function sizeOf(names: ReadonlyMap<string, Turn[]>): number {
  return [...names.values()].reduce((total, { length }) => total + length, 0);
}
