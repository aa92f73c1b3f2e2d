import type { EpochSeconds } from '#clock/clock';
import type { OAuthClient } from '#credentials/oauth-client';

/** What a client ID metadata document says of its client. */
export interface DocumentedClient {
  /** The document's own URL. */
  readonly id: string;
  readonly name: string;
  readonly redirectUris: readonly string[];
  /** Public keys for `private_key_jwt`, as JSON text. */
  readonly jwks: string | undefined;
}

/** Keeps what documents said when they were last read, as clients that belong to no server. */
export interface ClientDocumentStore {
  byUrl(url: string): Promise<{ client: OAuthClient; fetchedAt: EpochSeconds } | undefined>;

  /** Replaces what an earlier reading said. A client that was revoked stays so. */
  put(client: DocumentedClient, fetchedAt: EpochSeconds): Promise<void>;
}
