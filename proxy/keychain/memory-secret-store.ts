import type { SecretStore } from './secret-store.ts';

/** Forgets everything with the process. For machines that must keep nothing, and for tests. */
export function memorySecretStore(): SecretStore {
  const secrets = new Map<string, string>();
  return {
    get: (account) => Promise.resolve(secrets.get(account)),
    set: (account, secret) => {
      secrets.set(account, secret);
      return Promise.resolve();
    },
    remove: (account) => Promise.resolve(secrets.delete(account)),
  };
}
