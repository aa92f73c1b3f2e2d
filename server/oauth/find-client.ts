import type { OAuthClient, OAuthClientStore } from '#credentials/oauth-client';
import { ClientDocuments, type ClientDocumentPorts } from './client-metadata-document.ts';
import { OAuthRefusal } from './oauth-refusal.ts';

export interface FindClientPorts extends ClientDocumentPorts {
  readonly clients: Pick<OAuthClientStore, 'byId'>;
}

/**
 * The client that an authorization request names, in force; `sign-in` when that takes fetching a document, which is
 * done for nobody but people who have signed in: `userId` is the one who asks.
 *
 * @throws {OAuthRefusal} `invalid_client` when there is none, or it was revoked; `invalid_client_metadata`, `slow_down`
 */
export type FindClient = (
  clientId: string,
  asker: { userId: string | undefined },
) => Promise<OAuthClient | 'sign-in'>;

/** Finds clients that were made here and those that a document on the web describes. */
export function findClient(ports: FindClientPorts): FindClient {
  const documents = new ClientDocuments(ports);
  return async (clientId, { userId }) => {
    const isDocument = /^https?:/.test(clientId);
    const found = isDocument
      ? await documents.client(clientId, userId)
      : await ports.clients.byId(clientId);
    if (found === 'sign-in') return found;
    if (found && found.revokedAt === undefined) return found;
    throw new OAuthRefusal('invalid_client', 'no application with this client_id is known here');
  };
}
