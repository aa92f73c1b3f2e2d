import { setTimeout } from 'node:timers/promises';

import type { Clock } from '#clock/clock';
import type { MasterKey } from './master-key.ts';
import {
  keysInUse,
  readSigningKeys,
  type SigningKeys,
  type SigningKeyStore,
} from './signing-key.ts';

const pollEveryMs = 2000;
const leastPauseMs = 500;

export interface KeyRingPorts {
  readonly masterKey: MasterKey;
  readonly clock: Clock;
  /** Told when the store could not be asked; the keys that were known go on counting. */
  readonly failed: (error: unknown) => void;
}

/**
 * The signing keys as the store has them now, whoever put them there: looked at every two seconds, and
 * at once before a token of an unknown key is refused.
 */
export class KeyRing implements SigningKeys {
  readonly #store: SigningKeyStore;
  readonly #ports: KeyRingPorts;
  readonly #timer: NodeJS.Timeout;
  #keys: SigningKeys;
  #kids = '';
  #reading: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #readAtMs = 0;

  private constructor(store: SigningKeyStore, ports: KeyRingPorts, keys: SigningKeys) {
    this.#store = store;
    this.#ports = ports;
    this.#keys = keys;
    this.#timer = setInterval(() => void this.#read(), pollEveryMs).unref();
  }

  static async open(store: SigningKeyStore, ports: KeyRingPorts): Promise<KeyRing> {
    return new KeyRing(store, ports, await readSigningKeys(store, ports));
  }

  get current(): SigningKeys['current'] {
    return this.#keys.current;
  }

  get publicKeys(): SigningKeys['publicKeys'] {
    return this.#keys.publicKeys;
  }

  get jwks(): SigningKeys['jwks'] {
    return this.#keys.jwks;
  }

  /**
   * Resolves after a reading that began later than this call. Half a second lies between two, however
   * many ask: garbage must not make us read at will.
   */
  refresh(): Promise<void> {
    this.#next ??= this.#readNext();
    return this.#next;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #readNext(): Promise<void> {
    await this.#reading;
    const pauseMs = this.#readAtMs + leastPauseMs - performance.now();
    if (pauseMs > 0) await setTimeout(pauseMs);
    // Who comes from here on waits for a later one.
    this.#next = undefined;
    await this.#read();
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#readAtMs = performance.now();
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    try {
      // Opening a private key takes a while, and mostly nothing has changed.
      const known = keysInUse(await this.#store.list(), this.#ports.clock.now());
      const kids = known.map(({ kid, retiredAt }) => `${kid} ${retiredAt ?? ''}`).join();
      if (kids === this.#kids) return;
      this.#keys = await readSigningKeys(this.#store, this.#ports);
      this.#kids = kids;
    } catch (error) {
      this.#ports.failed(error);
    }
  }
}
