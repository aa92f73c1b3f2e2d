import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { acmeServer, basic } from '#support/acme-server';
import { runningServer } from '#support/running-server';

const server = await acmeServer({ args: ['--demo', '--show-demo-credentials'] });
afterAll(() => server[Symbol.asyncDispose]());

const place = 'acme/fixture';
const madeBy = {
  client: ['client', 'create', place, '--name', 'a client', '--scope', 'mcp:tools:read'],
  key: ['key', 'create', place, '--name', 'a key'],
  agent: ['agent', 'create', 'acme/inside'],
};
const secretIn = { client: 'client_secret', key: 'key', agent: 'key' } as const;
const rowsSchema = z.array(z.record(z.string(), z.unknown()));

test.each(['client', 'key', 'agent'] as const)(
  '86: secret of a new %s: shown when it is created, and later only its prefix and last four characters',
  async (noun) => {
    const made = z.record(z.string(), z.unknown()).parse(await server.command(...madeBy[noun]));
    const secret = String(made[secretIn[noun]]);
    const hint = `${/^[a-z_]+_/.exec(secret)?.[0]}…${secret.slice(-4)}`;
    const id = String(made['id'] ?? made['client_id']);
    const listing = [noun, 'list', noun === 'agent' ? 'acme' : place];

    const rows = rowsSchema.parse(await server.command(...listing));
    const table = await server.commandText(...listing);
    const row = rows.find((entry) => entry['id'] === id || entry['client_id'] === id);

    expect(secret).toMatch(/^(?:secret|mcp|pk_live)_[0-9A-Za-z]{36}$/);
    expect(row?.[secretIn[noun]]).toBe(hint);
    expect(table).toContain(hint);
    expect(JSON.stringify(rows) + table).not.toContain(secret.slice(-5));

    const revoked = await server.commandText(noun, 'revoke', id);
    const later = JSON.stringify(await server.command(...listing));
    expect(revoked + later).not.toContain(secret.slice(-5));
  },
);

test('86: dashboard: a new secret is shown once, with a note that it will not be shown again', async () => {
  const seen = await server.commandText('key', 'create', place, '--name', 'for a person');

  expect(seen.match(/mcp_[0-9A-Za-z]{36}/g)).toHaveLength(1);
  expect(seen).toContain('not shown again');
});

test('86: responses: one that contains a token is never cached', async () => {
  const { id, secret } = await server.client();
  const form = { grant_type: 'client_credentials' };
  const answer = await server.post('/api/oauth/token', form, basic(id, secret));

  expect(answer.json).toHaveProperty('access_token');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('etag')).toBeNull();
  expect(answer.headers.get('location')).toBeNull();
});

test('86: demo: its first start prints its secrets, and no later one does', async () => {
  const shape = /(?:secret|mcp)_[0-9A-Za-z]{36}/g;
  const shown = [...new Set(server.program.stdout.match(shape))];
  await server.program.end();

  await using again = await runningServer({
    args: ['--demo', '--show-demo-credentials'],
    dataDir: server.dataDir,
  });

  expect(shown.map((secret) => secret.replace(/_.*/, '')).sort()).toEqual(['mcp', 'secret']);
  expect(again.program.stdout).toContain('demo/library');
  expect(again.program.stdout).not.toMatch(shape);
});
