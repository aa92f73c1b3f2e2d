/** Where password hashes are kept, one a person at most. */
export interface PasswordStore {
  /** The encoded hash; `undefined` for a person who signs in otherwise. */
  hashOf(userId: string): Promise<string | undefined>;

  /** Replaces the hash and ends every session of the person, both or neither. */
  set(userId: string, hash: string): Promise<void>;
}
