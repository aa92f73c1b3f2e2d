import type { Scope } from '#model/scopes';
import type { Admission } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';

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
 * Whom an exchange is counted for: a key, or a client together with a person. One person of a widely used client must
 * not make others wait.
 */
export function countedFor({ credential, principal }: Admission): string {
  return credential.type === 'key' ? credential.id : principal;
}

/**
 * The exchanges in progress, each with its credential. Twice a second every such credential is checked again, and
 * exchanges that it no longer allows are ended, so that a revocation by any process reaches open streams within a
 * second. A listening stream ends with the loss of any scope, because it must deliver less; the caller opens a new
 * one. A call that was allowed is completed. If the database cannot be asked, everything that is open ends within
 * five seconds.
 */
export class OpenAnswers {
  readonly #open = new Map<string, Set<OpenAnswer>>();
  /** Checks in progress, by `lookedUpAs`: at most one each. */
  readonly #looking = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #roundAtMs = performance.now();
  #wasLate = false;

  constructor() {
    this.#timer = setInterval(() => void this.#check(), checkEveryMs).unref();
  }

  /** The number of open exchanges, by the result of `countedFor`. */
  count(id: string): number {
    return this.#open.get(id)?.size ?? 0;
  }

  /** How many exchanges are in progress. */
  get size(): number {
    let size = 0;
    for (const answers of this.#open.values()) size += answers.size;
    return size;
  }

  add(admission: Admission, controller: AbortController): OpenAnswer {
    const answer = new OpenAnswer(this, admission, controller);
    const id = countedFor(admission);
    const others = this.#open.get(id);
    if (others) others.add(answer);
    else this.#open.set(id, new Set([answer]));
    return answer;
  }

  /** How many exchanges beside this one, of the same caller, are endless. */
  endlessBeside({ admission }: OpenAnswer): number {
    const answers = [...(this.#open.get(countedFor(admission)) ?? [])];
    return answers.filter(({ isEndless }) => isEndless).length;
  }

  remove(answer: OpenAnswer): void {
    const id = countedFor(answer.admission);
    const answers = this.#open.get(id);
    answers?.delete(answer);
    if (answers?.size === 0) this.#open.delete(id);
  }

  /** Ends the endless exchanges, as a draining server must. */
  endEndless(): void {
    this.#each(({ isEndless, controller }) => isEndless && controller.abort());
  }

  endAll(): void {
    this.#each(({ controller }) => controller.abort());
  }

  close(): void {
    clearInterval(this.#timer);
    this.endAll();
  }

  #each(act: (answer: OpenAnswer) => void): void {
    for (const answers of this.#open.values()) for (const answer of answers) act(answer);
  }

  /** Runs all checks concurrently, so that a slow one delays no other. */
  async #check(): Promise<void> {
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
    this.#each(({ allowedAtMs, controller }) => {
      if (nowMs - allowedAtMs > uncheckedMs) controller.abort();
    });
  }

  async #lookUp(name: string, answers: readonly [OpenAnswer, ...OpenAnswer[]]): Promise<void> {
    const askedAtMs = performance.now();
    this.#looking.add(name);
    const checked = await check(answers[0].admission);
    this.#looking.delete(name);
    if (checked.outcome === 'failed') return;
    const { scopes } = checked;
    for (const answer of answers) {
      const { admission, isEndless, controller } = answer;
      const mayLess =
        scopes && isEndless && !admission.scopes.every((scope) => scopes.includes(scope));
      if (!scopes || mayLess) controller.abort();
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
  readonly controller: AbortController;
  /** Whether it is a stream without an end. */
  isEndless = false;
  /** When the last check that allowed it began. */
  allowedAtMs = performance.now();
  readonly #all: OpenAnswers;

  constructor(all: OpenAnswers, admission: Admission, controller: AbortController) {
    this.#all = all;
    this.admission = admission;
    this.controller = controller;
  }

  /** Marks the answer as a stream without an end. @throws {GatewayRefusal} `too_many_requests` */
  endless(): void {
    if (this.#all.endlessBeside(this) >= maxEndless) {
      throw new GatewayRefusal('too_many_requests', {
        detail: `this credential already has ${maxEndless} listening streams`,
        retryAfterSeconds: 1,
      });
    }
    this.isEndless = true;
  }

  over(): void {
    this.#all.remove(this);
  }
}

/** A database error ends nothing yet: the next check follows soon. */
async function check(
  admission: Admission,
): Promise<{ outcome: 'checked'; scopes: readonly Scope[] | undefined } | { outcome: 'failed' }> {
  try {
    return { outcome: 'checked', scopes: await admission.scopesNow() };
  } catch {
    return { outcome: 'failed' };
  }
}
