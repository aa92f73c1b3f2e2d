/** Where the accounts of an upstream OpenID provider are tied to people. */
export interface IdentityStore {
  /** The person behind an issuer's subject. */
  userOf(issuer: string, subject: string): Promise<string | undefined>;

  /** Ties them; `false` when that subject is tied to somebody. */
  link(issuer: string, subject: string, userId: string): Promise<boolean>;

  /** Whether the person has an account of this issuer. */
  isLinked(issuer: string, userId: string): Promise<boolean>;

  /** `false` when there was none. */
  unlink(issuer: string, userId: string): Promise<boolean>;

  /** Of every issuer. `false` when there was none. */
  unlinkAll(userId: string): Promise<boolean>;
}
