import { agentKeyRevoke } from '#administration/agent-key-operations';
import {
  keyCreate as create,
  keyList as list,
  keyRevoke as revoke,
} from '#administration/key-operations';
import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { findListed, findServer } from './named-server.ts';
import { printMade, printRows } from './print.ts';
import { readScopes } from './read-scopes.ts';

export const keyCreate: Command = {
  words: 'key create',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'name', value: 'N', required: true, doc: 'whom the key is for' },
    { name: 'scope', value: 'S', repeated: true, doc: 'what it may do (default: all but manage)' },
    { name: 'expires-in-days', value: 'D', doc: 'when it ends by itself (default: never)' },
    json,
  ],
  doc: 'make an MCP key; it is shown once',
  async run(input, { out, ...ports }) {
    const chosen = readScopes(input.list('scope'));
    const days = readDays(input.text('expires-in-days'));
    const { organization, name: server } = await findServer(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const made = await administer(
      create,
      {
        organization,
        server,
        name: input.must('name'),
        ...(chosen.length > 0 && { scopes: chosen }),
        ...(days !== undefined && { expiresInDays: days }),
      },
      ports,
    );
    const { id, name, key, expiresAt } = made;
    const scopes = chosen.length > 0 ? chosen : made.scopes;
    const facts = { id, name, key, scopes, expires_at: expiresAt };
    printMade(facts, { json: input.flag('json'), secret: 'key', out });
  },
};

export const keyList: Command = {
  words: 'key list',
  positionals: ['ORG[/SERVER]'],
  options: [json],
  doc: 'list MCP keys',
  async run(input, { out, ...ports }) {
    const at = await findListed(input.positionals[0] ?? '', ports.stores);
    const keys = await administerList(list, { ...at, order: 'asc' }, ports);
    const rows = keys.map((key) => ({
      id: key.id,
      name: key.name,
      key: key.hint,
      server: key.server === null ? null : `${at.organization}/${key.server}`,
      scopes: key.scopes,
      created_at: key.createdAt,
      last_used_at: key.lastUsedAt,
      expires_at: key.expiresAt,
      revoked_at: key.revokedAt,
    }));
    const empty = 'no MCP keys yet: latchkey-server key create ORG/SERVER --name N';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const keyRevoke: Command = {
  words: 'key revoke',
  positionals: ['ID'],
  options: [json],
  doc: 'revoke a key at once',
  async run(input, { out, ...ports }) {
    const [keyId = ''] = input.positionals;
    const key = await ports.stores.keyDirectory.byId(keyId);
    if (!key || key.revokedAt !== undefined) {
      throw new CommandError(`there is no active key ${keyId}`, 'latchkey-server key list ORG');
    }
    const { organization, agent } = key;
    if (agent === undefined) await administer(revoke, { organization, keyId }, ports);
    else await administer(agentKeyRevoke, { organization, agent, keyId }, ports);
    const facts = { id: keyId, revoked_at: ports.clock.now() };
    printMade(facts, { json: input.flag('json'), out });
  },
};

function readDays(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new UsageError(`--expires-in-days '${text}' is not a number of days`);
}
