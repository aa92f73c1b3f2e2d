/** What a configuration file says in place of a secret that the keychain has. */
export const keychainWord = 'keychain';

/** Stands for a secret in the keychain, which finds it by the URL and the account of its connection. */
export type InKeychain = { readonly in: typeof keychainWord };
export const inKeychain: InKeychain = { in: keychainWord };

/** A secret of a connection: as it is, or in the keychain. */
export type Secret = string | InKeychain;

/** The secret that a configuration means by `text`. */
export function readSecret(text: string): Secret {
  return text === keychainWord ? inKeychain : text;
}

export function isInKeychain(secret: Secret | undefined): secret is InKeychain {
  return typeof secret === 'object';
}
