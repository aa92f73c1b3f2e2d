import type { KeyObject } from 'node:crypto';

/** Who asks: an id, and how it proves to be the one. Never used at another authorization server. */
export type OAuthClient = {
  clientId: string;
  clientSecret?: string;
  /** For `private_key_jwt`; read when it is needed. */
  privateKey?: () => Promise<KeyObject>;
  /** What registration agreed on, if it did. RFC 7591 §2 */
  authMethod?: string;
};
