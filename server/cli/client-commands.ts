import { readFileSync } from 'node:fs';

import { z } from 'zod';

import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { createClient } from '#credentials/create-client';
import { createKeyedClient } from '#credentials/create-keyed-client';
import { checkRedirectUri } from '#credentials/redirect-uri';
import type { Command } from './command.ts';
import { findListed, findServer } from './named-server.ts';
import { printMade, printRows } from './print.ts';
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
  async run(input, { stores, clock, out }) {
    const scopes = readScopes(input.list('scope'));
    const redirectUris = input.list('redirect-uri').map((uri) => {
      const problem = checkRedirectUri(uri);
      if (problem !== undefined) throw new UsageError(`--redirect-uri '${uri}' ${problem}`);
      return uri;
    });
    const server = await findServer(input.positionals[0] ?? '', stores);
    const jwksFile = input.text('jwks');
    const jwks = jwksFile === undefined ? undefined : readJwks(jwksFile);
    const name = input.must('name');
    const made = { name, serverId: server.id, scopes, redirectUris };
    const ports = { clients: stores.clients, clock };
    const shown = { json: input.flag('json'), out };
    if (jwks !== undefined) {
      const { id } = await createKeyedClient({ ...made, jwks }, ports);
      return printMade({ client_id: id, client_secret: null, name, scopes }, shown);
    }
    const { id, secret } = await createClient({ ...made, jwks }, ports);
    const facts = { client_id: id, client_secret: secret, name, scopes };
    printMade(facts, { ...shown, secret: 'client_secret' });
  },
};

export const clientList: Command = {
  words: 'client list',
  positionals: ['ORG[/SERVER]'],
  options: [json],
  doc: 'list OAuth clients',
  async run(input, { stores, out }) {
    const { organization, server } = await findListed(input.positionals[0] ?? '', stores);
    const clients = await stores.clients.list(organization, server);
    const rows = clients.map((client) => ({
      client_id: client.id,
      client_secret: client.secretHint ?? null,
      name: client.name,
      server: client.serverPath ?? null,
      scopes: client.scopes,
      created_at: client.createdAt,
      last_used_at: client.lastUsedAt ?? null,
      expires_at: null,
      revoked_at: client.revokedAt ?? null,
    }));
    const empty =
      'no OAuth clients yet: latchkey-server client create ORG/SERVER --name N --scope S';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const clientRevoke: Command = {
  words: 'client revoke',
  positionals: ['ID'],
  options: [json],
  doc: 'revoke an OAuth client, and every token it has, at once',
  async run(input, { stores, clock, out }) {
    const [id = ''] = input.positionals;
    if (!(await stores.clients.revoke(id, clock.now()))) {
      throw new CommandError(`there is no active client ${id}`, 'latchkey-server client list ORG');
    }
    printMade({ client_id: id, revoked_at: clock.now() }, { json: input.flag('json'), out });
  },
};

function readJwks(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new CommandError(`--jwks ${file} cannot be read`, undefined, { cause });
  }
  if (jwksSchema.safeParse(parseJson(text)).success) return text;
  throw new UsageError(`--jwks ${file} is not a JWK set: {"keys":[…]}`);
}

const jwksSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).min(1) });

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
