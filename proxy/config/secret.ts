/** The word in a configuration file in place of a secret that is in the keychain. */
export const keychainWord = 'keychain';

/** A secret in the keychain, which is found by the URL and the account or client ID of its connection. */
export type InKeychain = { readonly in: typeof keychainWord };
export const inKeychain: InKeychain = { in: keychainWord };

/** A secret of a connection: its text, or a reference to the keychain. */
export type Secret = string | InKeychain;

/** The secret that `text` of a configuration means. */
export function readSecret(text: string): Secret {
  return text === keychainWord ? inKeychain : text;
}

export function isInKeychain(secret: Secret | undefined): secret is InKeychain {
  return typeof secret === 'object';
}
