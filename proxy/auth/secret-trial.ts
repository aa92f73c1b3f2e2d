import type { SecretStore } from '#keychain/secret-store';
import { priorAccount } from './kept-secrets.ts';

/**
 * A secret that is being replaced. The one in use stands in its account, the one before it in the account
 * for that, until the new one has worked. Wherever a process ends in between, what is in use is whole, and
 * the two accounts say how far it came: none before, or the same, means that nothing is on trial.
 */
export interface SecretTrial {
  isOn(): Promise<boolean>;

  /** Puts `next` in use. The last that is known to work is kept, also when two follow each other. */
  begin(next: string): Promise<void>;

  /** The one in use has worked: the one before is forgotten. */
  proven(): Promise<void>;

  /** The one before is in use again; `false` when there is none. */
  undo(): Promise<boolean>;
}

export function secretTrial(account: string, store: SecretStore): SecretTrial {
  const prior = priorAccount(account);
  const both = async () => [await store.get(account), await store.get(prior)] as const;
  const isTrial = (current: string | undefined, before: string | undefined) =>
    before !== undefined && secretIn(before) !== secretIn(current);
  return {
    async isOn() {
      return isTrial(...(await both()));
    },
    async begin(next) {
      const [current, before] = await both();
      if (current !== undefined && !isTrial(current, before)) await store.set(prior, current);
      await store.set(account, next);
    },
    async proven() {
      await store.remove(prior);
    },
    async undo() {
      const [current, before] = await both();
      if (before === undefined) return false;
      if (isTrial(current, before)) await store.set(account, before);
      await store.remove(prior);
      return isTrial(current, before);
    },
  };
}

/** A client's secret is kept with the issuer it is bound to, which may come to be known later. */
function secretIn(value: string | undefined): string | undefined {
  try {
    const kept: unknown = JSON.parse(value ?? '');
    if (typeof kept === 'object' && kept !== null && 'clientSecret' in kept)
      return String(kept.clientSecret);
  } catch {
    // A key as it is.
  }
  return value;
}
