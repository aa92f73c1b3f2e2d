import { AccountRefusal } from './account-refusal.ts';

const mostAtOnce = 2;
/** How many wait in each class, and how many of one person or network. */
const mostWaiting = 100;
const mostOfOne = 25;

/** For whom a password is hashed: somebody whose browser, session or link is known, or whoever is in a network. */
export type HashedFor = { readonly known: string } | { readonly network: string };

/** What waits, by person or network, in the order in which they have their turn. */
type Waiting = Map<string, Turn[]>;

interface Turn {
  readonly begin: () => void;
  readonly refuse: (error: AccountRefusal) => void;
}

/**
 * Lets two hashes be computed at a time, in fair order: three of four turns are for known people, as long as any wait, and
 * within a class all people or networks take turns. So whoever guesses waits for themselves.
 */
export class HashingQueue {
  readonly #known: Waiting = new Map();
  readonly #unknown: Waiting = new Map();
  #working = 0;
  #turns = 0;

  /** @throws {AccountRefusal} `busy` when 25 of one person or network wait, or a hundred and none has more than this one */
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

/** Refuses the latest of whoever has most waiting, if that is more than `mine`. */
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
