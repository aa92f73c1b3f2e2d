import type { Ending } from '#model/ending';
import type { ToolRights } from '#model/tool-rights';
import type { Admission, Granted } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { ListChanges } from './list-changes.ts';

const checkEveryMs = 500;
/**
 * An exchange ends when no check has allowed it for this long: a process that is cut off from the database learns of no
 * revocation. With the pause between two rounds, and a second that the admission may have taken, this stays below five
 * seconds.
 */
const uncheckedMs = 3400;
/** Listening streams must leave capacity for calls of the same caller. */
const maxEndless = 512;

/**
 * The name that an exchange is counted under: the id of a key, or the principal, which is a client together with a person, because one
 * person must not make the others who use the same client wait.
 */
export function countedFor({ credential, principal }: Admission): string {
  return credential.type === 'key' ? credential.id : principal;
}

/**
 * The exchanges in progress, each with its credential. Twice a second every such credential is checked again, and exchanges that it no
 * longer allows are ended, so that a revocation by any process reaches open streams within a second. A listening stream ends when its
 * caller loses any scope, because it must deliver less; the caller opens a new one. If the caller's rights have changed, the stream is
 * notified. Losing a scope does not end a call that was allowed. If the database cannot be asked, everything that is open ends within five seconds.
 */
export class OpenAnswers {
  /**
   * Lists, which stay until the next round even if they are empty: a `Set` or `Map` to which every call is added would keep
   * calls that are over. See `brief-map.ts`.
   */
  readonly #open = new Map<string, OpenAnswer[]>();
  /** The exchanges of collections with their members. Their callers made one call each, which is in `#open`. */
  readonly #atMembers = new Map<string, OpenAnswer[]>();
  /** Checks in progress, by `lookedUpAs`: at most one each. */
  readonly #looking = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #roundAtMs = performance.now();
  #wasLate = false;

  constructor() {
    this.#timer = setInterval(() => void this.#check(), checkEveryMs).unref();
  }

  /** How many exchanges the caller has open: at members of collections if `admission` is to a member, else elsewhere. */
  count(admission: Admission): number {
    return this.#ofKind(admission).get(countedFor(admission))?.length ?? 0;
  }

  /** How many exchanges are in progress. */
  get size(): number {
    let size = 0;
    for (const answers of this.#open.values()) size += answers.length;
    for (const answers of this.#atMembers.values()) size += answers.length;
    return size;
  }

  add(admission: Admission, ending: Pick<Ending, 'abort'>): OpenAnswer {
    const id = countedFor(admission);
    const open = this.#ofKind(admission);
    let all = open.get(id);
    if (!all) open.set(id, (all = []));
    return new OpenAnswer(all, admission, ending);
  }

  #ofKind({ proved }: Admission): Map<string, OpenAnswer[]> {
    return proved.type === 'member' ? this.#atMembers : this.#open;
  }

  /** Ends the endless exchanges, as a draining server must. */
  endEndless(): void {
    this.#each(({ isEndless, ending }) => isEndless && ending.abort());
  }

  endAll(): void {
    this.#each(({ ending }) => ending.abort());
  }

  close(): void {
    clearInterval(this.#timer);
    this.endAll();
  }

  #each(act: (answer: OpenAnswer) => void): void {
    // All are collected first, because an exchange that ends leaves its list.
    const all = [...this.#open.values(), ...this.#atMembers.values()];
    for (const answer of all.flat()) act(answer);
  }

  /** Runs all checks concurrently, so that a slow one delays no other. */
  async #check(): Promise<void> {
    for (const open of [this.#open, this.#atMembers]) {
      for (const [id, answers] of open) if (answers.length === 0) open.delete(id);
    }
    this.#endUnchecked();
    const due = new Map<string, [OpenAnswer, ...OpenAnswer[]]>();
    this.#each((answer) => {
      const name = lookedUpAs(answer.admission);
      if (this.#looking.has(name)) return;
      const others = due.get(name);
      if (others) others.push(answer);
      else due.set(name, [answer]);
    });
    await Promise.all([...due].map(([name, answers]) => this.#lookUp(name, answers)));
  }

  #endUnchecked(): void {
    const nowMs = performance.now();
    // A process that was suspended could not check anything, so the round that begins now gets its chance first. But
    // not twice in a row: a process that is always late must not go on without checks.
    const isLate = nowMs - this.#roundAtMs > 4 * checkEveryMs && !this.#wasLate;
    this.#roundAtMs = nowMs;
    this.#wasLate = isLate;
    if (isLate) return;
    this.#each(({ allowedAtMs, ending }) => {
      if (nowMs - allowedAtMs > uncheckedMs) ending.abort();
    });
  }

  async #lookUp(name: string, answers: readonly [OpenAnswer, ...OpenAnswer[]]): Promise<void> {
    const askedAtMs = performance.now();
    this.#looking.add(name);
    const checked = await check(answers[0].admission);
    this.#looking.delete(name);
    if (checked.outcome === 'failed') return;
    const { granted } = checked;
    for (const answer of answers) {
      const { admission, isEndless, ending } = answer;
      const mayLess =
        granted && isEndless && !admission.scopes.every((scope) => granted.scopes.includes(scope));
      if (!granted || mayLess) ending.abort();
      else answer.look(granted.rights);
      answer.allowedAtMs = askedAtMs;
    }
  }
}

/** The key under which checks are shared. It includes the server: a person may belong to the organization of one server only. */
function lookedUpAs({ reference, endpoint }: Admission): string {
  return `${reference} ${endpoint.id}`;
}

/** One exchange in progress. */
export class OpenAnswer {
  readonly admission: Admission;
  readonly ending: Pick<Ending, 'abort'>;
  /** Whether it is a stream without an end. */
  isEndless = false;
  /** When the last check that allowed it began. */
  allowedAtMs = performance.now();
  /** What its caller may use, according to the last check. */
  rights: ToolRights;
  /** Announces changed lists to the caller, if the caller listens to them. */
  changes: ListChanges | undefined;
  /** The exchanges of the same caller, including this one. */
  readonly #all: OpenAnswer[];
  /** The index of this exchange in `#all`; -1 once it is over. */
  #at: number;

  constructor(all: OpenAnswer[], admission: Admission, ending: Pick<Ending, 'abort'>) {
    this.#all = all;
    this.admission = admission;
    this.rights = admission.rights;
    this.ending = ending;
    this.#at = all.push(this) - 1;
  }

  /** Marks the answer as a stream without an end. @throws {GatewayRefusal} `too_many_requests` */
  endless(): void {
    if (this.#all.filter(({ isEndless }) => isEndless).length >= maxEndless) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this credential already has ${maxEndless} listening streams`,
        retryAfterSeconds: 1,
      });
    }
    this.isEndless = true;
  }

  /** Its caller has these rights now. */
  look(rights: ToolRights): void {
    this.rights = rights;
    this.changes?.look(rights);
  }

  over(): void {
    const last = this.#all.at(-1);
    if (this.#at < 0 || !last) return;
    // The last exchange takes the place of this one.
    this.#all[this.#at] = last;
    last.#at = this.#at;
    this.#all.pop();
    this.#at = -1;
  }
}

/** A database error ends nothing yet: the next check follows soon. */
async function check(
  admission: Admission,
): Promise<{ outcome: 'checked'; granted: Granted | undefined } | { outcome: 'failed' }> {
  try {
    return { outcome: 'checked', granted: await admission.now() };
  } catch {
    return { outcome: 'failed' };
  }
}
