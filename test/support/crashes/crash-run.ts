import { AsyncLocalStorage } from 'node:async_hooks';
import type { MemoryKeychain } from './memory-keychain.ts';
import { gateFiles, type Gate } from './writes.ts';

/** The part that crashes: the program that does the work, or the keychain that the program uses. */
export type Victim = 'program' | 'keychain';

/** The crash at one of the points that a run passes; `at` is its number, from 1. */
export type Crash = { victim: Victim; at: number };

/** The reported result of the work; a program that crashed reports none. */
export type Told = { ok: true } | { ok: false; problem: string } | undefined;

/** A program's run: the points that it passed, and its result. */
export interface CrashRun {
  readonly points: readonly string[];
  /** How many requests the program had sent when it passed each point. */
  readonly requests: readonly number[];
  readonly told: Told;
}

/** Fails every write and request of a program that is dead, so that whatever it does has no effect. */
class Crashed extends Error {
  override readonly name = 'Crashed';
}

class Recorder {
  readonly points: string[] = [];
  readonly requests: number[] = [];
  isDead = false;
  #sent = 0;
  readonly #crash: Crash | undefined;
  readonly #keychain: MemoryKeychain;

  constructor(keychain: MemoryKeychain, crash: Crash | undefined) {
    this.#keychain = keychain;
    this.#crash = crash;
  }

  readonly gate: Gate = async ({ what, write, half }) => {
    const inKeychain = /^(keep|forget) /.test(what);
    if (half) await this.#pass(`half of ${what}`, half);
    await this.#pass(`before ${what}`);
    const result = await write();
    await this.#pass(`after ${what}`);
    // The write was done, but the answer never came.
    if (inKeychain && this.#keychain.isGone) throw new Error('the keychain daemon has died');
    return result;
  };

  alive(): void {
    if (this.isDead) throw new Crashed();
  }

  request(): void {
    this.alive();
    this.#sent += 1;
  }

  async #pass(point: string, before?: () => Promise<unknown>): Promise<void> {
    this.alive();
    this.points.push(point);
    this.requests.push(this.#sent);
    if (this.points.length !== this.#crash?.at) return;
    if (this.#crash.victim === 'keychain') {
      this.#keychain.isGone = true;
      return;
    }
    await before?.();
    this.isDead = true;
    this.alive();
  }
}

const running = new AsyncLocalStorage<Recorder>();

/** Outside a run such as {@link crashRun}, writes just happen. */
export const gate: Gate = async (write) => {
  const recorder = running.getStore();
  return recorder ? recorder.gate(write) : write.write();
};
gateFiles(gate, () => running.getStore() === undefined);

/** Counts a request. Fails in a program that is dead. */
export function aboutToSend(): void {
  running.getStore()?.request();
}

/** Runs `work` as a program that does not crash. */
export async function withoutCrash<T>(
  keychain: MemoryKeychain,
  work: () => Promise<T>,
): Promise<T> {
  return running.run(new Recorder(keychain, undefined), work);
}

/** Runs `work` as a program that crashes at one of its points, or whose keychain crashes there. */
export async function crashRun(
  keychain: MemoryKeychain,
  crash: Crash | undefined,
  work: () => Promise<unknown>,
): Promise<CrashRun> {
  const recorder = new Recorder(keychain, crash);
  const told: Told = await running.run(recorder, async () =>
    work().then(
      () => ({ ok: true as const }),
      (error: unknown) => ({ ok: false as const, problem: String(error) }),
    ),
  );
  const { points, requests } = recorder;
  return { points, requests, told: recorder.isDead ? undefined : told };
}
