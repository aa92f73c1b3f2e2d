import type { OAuthClient, OAuthClientStore } from '#credentials/oauth-client';
import { clientFromDocument, type ClientDocumentPorts } from './client-metadata-document.ts';
import { OAuthRefusal } from './oauth-refusal.ts';

export interface FindClientPorts extends ClientDocumentPorts {
  readonly clients: Pick<OAuthClientStore, 'byId'>;
}

/**
 * The client that an authorization request names, in force; `sign-in` when that takes fetching a document and it may not be fetched.
 *
 * @throws {OAuthRefusal} `invalid_client` when there is none, or it was revoked.
 */
export type FindClient = (
  clientId: string,
  options: { mayFetch: boolean },
) => Promise<OAuthClient | 'sign-in'>;

/** Finds clients that were made here and those that a document on the web describes. */
export function findClient(ports: FindClientPorts): FindClient {
  return async (clientId, { mayFetch }) => {
    const isDocument = /^https?:/.test(clientId);
    const found = isDocument
      ? await clientFromDocument(clientId, { mayFetch }, ports)
      : await ports.clients.byId(clientId);
    if (found === 'sign-in') return found;
    if (found && found.revokedAt === undefined) return found;
    throw new OAuthRefusal('invalid_client', 'no application with this client_id is known here');
  };
}
