import type { AsyncEntry } from '@napi-rs/keyring';

/** A keychain that outlives every program; while it `isGone`, every operation fails. */
export type MemoryKeychain = { readonly kept: Map<string, string>; isGone: boolean };

/** The entry class of that keychain, with the interface of the real keychain library. */
export function memoryEntries(keychain: MemoryKeychain): typeof AsyncEntry {
  const { kept } = keychain;
  const present = () => {
    if (keychain.isGone) throw new Error('the keychain daemon has died');
  };
  return class MemoryEntry implements AsyncEntry {
    readonly #account: string;
    constructor(_service: string, account: string) {
      this.#account = account;
    }
    static withTarget(_target: string, service: string, account: string): MemoryEntry {
      return new MemoryEntry(service, account);
    }
    async setPassword(secret: string): Promise<void> {
      present();
      kept.set(this.#account, secret);
    }
    async getPassword(): Promise<string | null> {
      present();
      return kept.get(this.#account) ?? null;
    }
    async deletePassword(): Promise<boolean> {
      present();
      return kept.delete(this.#account);
    }
    async deleteCredential(): Promise<boolean> {
      return this.deletePassword();
    }
    async setSecret(secret: Uint8Array): Promise<void> {
      return this.setPassword(Buffer.from(secret).toString());
    }
    async getSecret(): Promise<number[] | null> {
      const secret = await this.getPassword();
      return secret === null ? null : [...Buffer.from(secret)];
    }
  };
}
