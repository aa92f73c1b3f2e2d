import {
  tokenCreate as create,
  tokenList as list,
  tokenRevoke as revoke,
} from '#administration/token-operations';
import { json } from '#config/option';
import { UsageError } from '#config/usage-error';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
import { findUser } from './find-user.ts';
import { printMade, printRows } from './print.ts';

export const tokenCreate: Command = {
  words: 'token create',
  positionals: ['EMAIL'],
  options: [
    { name: 'name', value: 'N', required: true, doc: 'what uses it' },
    { name: 'expires-in-days', value: 'D', fallback: '90', doc: 'when it ends, within a year' },
    json,
  ],
  doc: 'make a personal token for the admin API; it may do what the person may, and is shown once',
  async run(input, { out, ...ports }) {
    const { id: userId } = await findUser(input.positionals[0] ?? '', ports.stores);
    const days = input.must('expires-in-days');
    if (!/^[1-9]\d{0,2}$/.test(days)) {
      throw new UsageError(`--expires-in-days '${days}' is not a number of days`);
    }
    const fields = { userId, name: input.must('name'), expiresInDays: days };
    const { id, name, token, expiresAt } = await administer(create, fields, ports);
    const facts = { id, name, token, expires_at: expiresAt };
    printMade(facts, { json: input.flag('json'), secret: 'token', out });
  },
};

export const tokenList: Command = {
  words: 'token list',
  positionals: ['EMAIL'],
  options: [json],
  doc: 'list the personal tokens of a person',
  async run(input, { out, ...ports }) {
    const { id: userId } = await findUser(input.positionals[0] ?? '', ports.stores);
    const { items } = await administer(list, { userId }, ports);
    const rows = items.map((token) => ({
      id: token.id,
      name: token.name,
      token: token.hint,
      created_at: token.createdAt,
      last_used_at: token.lastUsedAt,
      expires_at: token.expiresAt,
      revoked_at: token.revokedAt,
    }));
    const empty = 'no personal tokens: latchkey-server token create EMAIL --name N';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const tokenRevoke: Command = {
  words: 'token revoke',
  positionals: ['EMAIL', 'ID'],
  options: [json],
  doc: 'revoke a personal token of a person at once',
  async run(input, { out, ...ports }) {
    const [email = '', tokenId = ''] = input.positionals;
    const { id: userId } = await findUser(email, ports.stores);
    const { revokedAt } = await administer(revoke, { userId, tokenId }, ports);
    printMade({ id: tokenId, revoked_at: revokedAt }, { json: input.flag('json'), out });
  },
};
