/** Keeps one secret per account where only this user of this machine can read it. */
export interface SecretStore {
  /** The secret last set for `account`; `undefined` when there is none. */
  get(account: string): Promise<string | undefined>;

  /** Replaces whatever `account` held. On disk once resolved. */
  set(account: string, secret: string): Promise<void>;

  /** `false` when there was nothing to remove. */
  remove(account: string): Promise<boolean>;
}

/** The only error a SecretStore rejects with. `cause` is the platform's own. */
export class SecretStoreError extends Error {
  override readonly name = 'SecretStoreError';
  readonly code: 'unavailable' | 'locked' | 'timeout';

  /** `unavailable`, although a keychain answered: it keeps nothing, as it has no collection yet. */
  readonly isReachable: boolean;

  constructor(
    code: SecretStoreError['code'],
    message: string,
    options?: ErrorOptions & { isReachable?: boolean },
  ) {
    super(message, options);
    this.code = code;
    this.isReachable = options?.isReachable ?? code !== 'unavailable';
  }
}
