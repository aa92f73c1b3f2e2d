import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { createKey } from '#credentials/create-key';
import { defaultKeyScopes } from '#credentials/scope';
import type { Command } from './command.ts';
import { findListed, findServer } from './named-server.ts';
import { printMade, printRows } from './print.ts';
import { readScopes } from './read-scopes.ts';

const secondsADay = 86_400;

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
  async run(input, { stores, clock, out }) {
    const chosen = readScopes(input.list('scope'));
    const scopes = chosen.length > 0 ? chosen : defaultKeyScopes;
    const days = readDays(input.text('expires-in-days'));
    const server = await findServer(input.positionals[0] ?? '', stores);
    const name = input.must('name');
    const expiresAt = days === undefined ? undefined : clock.now() + days * secondsADay;
    const owner = { type: 'server', serverId: server.id } as const;
    const made = { name, owner, scopes, expiresAt };
    const { id, key } = await createKey(made, { keys: stores.keys, clock });
    const facts = { id, name, key, scopes, expires_at: expiresAt ?? null };
    printMade(facts, { json: input.flag('json'), secret: 'key', out });
  },
};

export const keyList: Command = {
  words: 'key list',
  positionals: ['ORG[/SERVER]'],
  options: [json],
  doc: 'list MCP keys',
  async run(input, { stores, out }) {
    const { organization, server } = await findListed(input.positionals[0] ?? '', stores);
    const keys = await stores.keys.list(organization, server);
    const rows = keys.map((key) => ({
      id: key.id,
      name: key.name,
      key: key.hint,
      scopes: key.scopes,
      created_at: key.createdAt,
      last_used_at: key.lastUsedAt ?? null,
      expires_at: key.expiresAt ?? null,
      revoked_at: key.revokedAt ?? null,
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
  async run(input, { stores, clock, out }) {
    const [id = ''] = input.positionals;
    if (!(await stores.keys.revoke(id, clock.now()))) {
      throw new CommandError(`there is no active key ${id}`, 'latchkey-server key list ORG');
    }
    printMade({ id, revoked_at: clock.now() }, { json: input.flag('json'), out });
  },
};

function readDays(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new UsageError(`--expires-in-days '${text}' is not a number of days`);
}
