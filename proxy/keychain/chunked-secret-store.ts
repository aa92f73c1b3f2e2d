import type { SecretStore } from './secret-store.ts';

const head = /^latchkey-chunks:([0-9a-f]{16}):(\d+)$/;

/**
 * A store for long secrets over one that takes only `maxChars` characters a value, such as the
 * Windows Credential Manager (2,560 bytes of UTF-16). The parts stand under accounts of their own
 * and a fresh mark; the head is written last, so that a reader sees the old secret or the new one.
 */
export function chunkedSecretStore(store: SecretStore, maxChars: number): SecretStore {
  const partAccount = (account: string, mark: string, index: number) =>
    `${account} part ${mark} ${index}`;

  async function removeParts(account: string, value: string | undefined): Promise<void> {
    const [, mark = '', count = '0'] = head.exec(value ?? '') ?? [];
    for (let index = 0; index < Number(count); index += 1)
      await store.remove(partAccount(account, mark, index));
  }

  return {
    async get(account) {
      const value = await store.get(account);
      const [, mark, count] = head.exec(value ?? '') ?? [];
      if (mark === undefined) return value;
      const parts: string[] = [];
      for (let index = 0; index < Number(count); index += 1) {
        const part = await store.get(partAccount(account, mark, index));
        if (part === undefined) return undefined;
        parts.push(part);
      }
      return parts.join('');
    },

    async set(account, secret) {
      const before = await store.get(account);
      if (secret.length <= maxChars) await store.set(account, secret);
      else {
        const { randomBytes } = await import('node:crypto');
        const mark = randomBytes(8).toString('hex');
        const count = Math.ceil(secret.length / maxChars);
        for (let index = 0; index < count; index += 1) {
          const part = secret.slice(index * maxChars, (index + 1) * maxChars);
          await store.set(partAccount(account, mark, index), part);
        }
        await store.set(account, `latchkey-chunks:${mark}:${count}`);
      }
      await removeParts(account, before);
    },

    async remove(account) {
      const before = await store.get(account);
      const removed = await store.remove(account);
      await removeParts(account, before);
      return removed;
    },
  };
}
