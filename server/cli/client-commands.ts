import {
  clientCreate as create,
  clientList as list,
  clientRevoke as revoke,
} from '#administration/client-operations';
import { clientRotate as rotate } from '#administration/client-secret-operations';
import { registeredClientRevoke } from '#administration/registered-client-operations';
import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { checkRedirectUri } from '#credentials/redirect-uri';
import { administer, administerList } from './administer.ts';
import type { Command, Stores } from './command.ts';
import { findListed, findServer } from './named-server.ts';
import { printMade, printRows } from './print.ts';
import { readJwks } from './read-jwks.ts';
import { readScopes } from './read-scopes.ts';

export const clientCreate: Command = {
  words: 'client create',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'name', value: 'N', required: true, doc: 'whom the client is for' },
    {
      name: 'scope',
      value: 'S',
      repeated: true,
      required: true,
      doc: 'the most it may ever get, one scope each time',
    },
    { name: 'redirect-uri', value: 'U', repeated: true, doc: 'where consent may return to' },
    { name: 'jwks', value: 'FILE', doc: 'its public keys, instead of a secret' },
    json,
  ],
  doc: 'make an OAuth client; its secret is shown once',
  async run(input, { out, ...ports }) {
    const scopes = readScopes(input.list('scope'));
    const redirectUris = input.list('redirect-uri').map((uri) => {
      const problem = checkRedirectUri(uri);
      if (problem !== undefined) throw new UsageError(`--redirect-uri '${uri}' ${problem}`);
      return uri;
    });
    const { organization, name: server } = await findServer(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const jwksFile = input.text('jwks');
    const jwks = jwksFile === undefined ? {} : { jwks: readJwks(jwksFile) };
    const chosen = { name: input.must('name'), scopes, redirectUris, ...jwks };
    const made = await administer(create, { organization, server, ...chosen }, ports);
    const { clientId, clientSecret, name } = made;
    const facts = { client_id: clientId, client_secret: clientSecret, name, scopes };
    const shown = { json: input.flag('json'), out };
    printMade(facts, clientSecret === null ? shown : { ...shown, secret: 'client_secret' });
  },
};

export const clientList: Command = {
  words: 'client list',
  positionals: ['ORG[/SERVER]'],
  options: [json],
  doc: 'list OAuth clients',
  async run(input, { out, ...ports }) {
    const at = await findListed(input.positionals[0] ?? '', ports.stores);
    const clients = await administerList(list, { ...at, order: 'asc' }, ports);
    const rows = clients.map((client) => ({
      client_id: client.clientId,
      client_secret: client.secretHint,
      name: client.name,
      server: `${at.organization}/${client.server}`,
      scopes: client.scopes,
      created_at: client.createdAt,
      last_used_at: client.lastUsedAt,
      expires_at: null,
      revoked_at: client.revokedAt,
    }));
    const empty =
      'no OAuth clients yet: latchkey-server client create ORG/SERVER --name N --scope S';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const clientRotate: Command = {
  words: 'client rotate',
  positionals: ['ID'],
  options: [
    {
      name: 'expire-others-in-days',
      value: 'D',
      doc: 'when the older secrets end, 0 for at once (default: when they are revoked)',
    },
    json,
  ],
  doc: 'give an OAuth client one more secret, shown once; the older ones count meanwhile',
  async run(input, { out, ...ports }) {
    const { clientId, organization } = await activeClient(input.positionals[0] ?? '', ports.stores);
    if (organization === undefined) {
      throw new CommandError(
        `the client ${clientId} made itself known, and looks after its secret`,
      );
    }
    const days = input.text('expire-others-in-days');
    if (days !== undefined && !/^\d{1,2}$/.test(days)) {
      throw new UsageError(`--expire-others-in-days '${days}' is not a number of days`);
    }
    const fields = { organization, clientId, ...(days && { expireOthersInDays: days }) };
    const { id, clientSecret } = await administer(rotate, fields, ports);
    const facts = { client_id: clientId, id, client_secret: clientSecret };
    printMade(facts, { json: input.flag('json'), secret: 'client_secret', out });
  },
};

export const clientRevoke: Command = {
  words: 'client revoke',
  positionals: ['ID'],
  options: [json],
  doc: 'revoke an OAuth client, and every token it has, at once',
  async run(input, { out, ...ports }) {
    const { clientId, organization } = await activeClient(input.positionals[0] ?? '', ports.stores);
    if (organization === undefined) await administer(registeredClientRevoke, { clientId }, ports);
    else await administer(revoke, { organization, clientId }, ports);
    const facts = { client_id: clientId, revoked_at: ports.clock.now() };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** A client that stands, and the organization that it belongs to, if it belongs to one. */
async function activeClient(
  clientId: string,
  { clients }: Pick<Stores, 'clients'>,
): Promise<{ clientId: string; organization: string | undefined }> {
  const client = await clients.byId(clientId);
  if (client && client.revokedAt === undefined) {
    return { clientId, organization: client.serverPath?.split('/')[0] };
  }
  throw new CommandError(
    `there is no active client ${clientId}`,
    'latchkey-server client list ORG',
  );
}
