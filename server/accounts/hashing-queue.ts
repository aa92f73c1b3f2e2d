import { AccountRefusal } from './account-refusal.ts';

const mostAtOnce = 2;
/** How many hashes may wait for known people, how many for networks, and how many for one person or network. */
const mostWaiting = 100;
const mostOfOne = 25;

/** For whom a password is hashed: a person whose browser, session or link is known, or any caller from a network. */
export type HashedFor = { readonly known: string } | { readonly network: string };

/** What waits, by person or network, in the order in which they have their turn. */
type Waiting = Map<string, Turn[]>;

interface Turn {
  readonly begin: () => void;
  readonly refuse: (error: AccountRefusal) => void;
}

/**
 * Computes two hashes at a time, in fair order: three of four turns are for known people, as long as any wait, and people
 * or networks take turns among themselves. A guesser therefore delays only other callers from the same network.
 */
export class HashingQueue {
  readonly #known: Waiting = new Map();
  readonly #unknown: Waiting = new Map();
  #working = 0;
  #turns = 0;

  /** @throws {AccountRefusal} `busy` when 25 wait for this person or network, or a hundred in all and no other has more */
  async run<Result>(whose: HashedFor, work: () => Promise<Result>): Promise<Result> {
    if (this.#working < mostAtOnce) this.#working += 1;
    else await this.#turn(whose);
    try {
      return await work();
    } finally {
      // The slot passes directly to the next one, so that no later caller can take it.
      const next = this.#next();
      if (next) next.begin();
      else this.#working -= 1;
    }
  }

  #turn(whose: HashedFor): Promise<void> {
    const [waiting, name] =
      'known' in whose ? [this.#known, whose.known] : [this.#unknown, whose.network];
    const mine = waiting.get(name) ?? [];
    if (mine.length >= mostOfOne) throw new AccountRefusal('busy', `${mostOfOne} of one wait`);
    if (sizeOf(waiting) >= mostWaiting) makeRoom(waiting, mine.length);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.set(name, [...mine, { begin: resolve, refuse: reject }]);
    return promise;
  }

  #next(): Turn | undefined {
    this.#turns += 1;
    const isForUnknown = this.#turns % 4 === 0;
    const [first, second] = isForUnknown
      ? [this.#unknown, this.#known]
      : [this.#known, this.#unknown];
    return takeNext(first) ?? takeNext(second);
  }
}

function sizeOf(waiting: Waiting): number {
  return [...waiting.values()].reduce((total, { length }) => total + length, 0);
}

/** Refuses the latest of the person or network with the most waiting, if those are more than `mine`. */
function makeRoom(waiting: Waiting, mine: number): void {
  const most = [...waiting.values()].reduce((one, other) =>
    other.length > one.length ? other : one,
  );
  if (most.length <= mine + 1) throw new AccountRefusal('busy', `${mostWaiting} wait`);
  most.pop()?.refuse(new AccountRefusal('busy', 'others have fewer that wait'));
}

function takeNext(waiting: Waiting): Turn | undefined {
  const [entry] = waiting;
  if (!entry) return undefined;
  const [name, [next, ...others]] = entry;
  // At the end again, as all others come first.
  waiting.delete(name);
  if (others.length > 0) waiting.set(name, others);
  return next;
}
