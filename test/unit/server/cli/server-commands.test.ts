import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

import { listClientSecrets } from '#server/db/client-secrets';
import { findServer } from '#server/db/servers';
import { administration, administrationWithServer } from '#support/administration';
import { newestEvents } from '#support/newest-events';
import { temporaryFolder } from '#support/temporary-folder';

test('servers are listed with their upstreams', async () => {
  await using admin = await administrationWithServer();
  await admin.run('agent', 'create', 'acme/hq');
  await admin.run('server', 'create', 'acme/local', '--agent', 'hq');
  await admin.run('server', 'create', 'acme/files', '--http-url', 'http://127.0.0.1:9/mcp');

  expect(await admin.json('server', 'list', 'acme')).toMatchObject([
    { name: 'acme/files', upstream: 'http', upstream_url: 'http://127.0.0.1:9/mcp' },
    { name: 'acme/local', upstream: 'agent', agent: 'hq' },
    { name: 'acme/web', upstream: 'demo', hidden_tools: [], disabled_at: null },
  ]);
  expect(await admin.json('organization', 'list')).toMatchObject([{ name: 'acme' }]);
});

test('an update changes the given settings and keeps the rest', async () => {
  await using admin = await administrationWithServer();
  await admin.run('server', 'update', 'acme/web', '--title', 'Web', '--description', 'Pages');
  await admin.run('server', 'update', 'acme/web', '--http-url', 'https://mcp.example.com/mcp');
  await admin.run('server', 'update', 'acme/web', '--description', '');

  expect(await findServer(admin.stores.db, 'acme', 'web')).toMatchObject({
    title: 'Web',
    target: { upstream: { kind: 'http', url: 'https://mcp.example.com/mcp' } },
  });
  expect(await findServer(admin.stores.db, 'acme', 'web')).not.toHaveProperty('description');
});

test.each([
  [['agent', 'create', 'acme/hq'], 'latchkey-server agent create-key acme/hq'],
  [['server', 'create', 'acme/web', '--demo'], 'latchkey-server server update acme/web'],
  [['group', 'create', 'acme', 'sales'], 'latchkey-server group list acme shows'],
  [['organization', 'create', 'acme'], 'latchkey-server organization list shows'],
])('%j with a name that is taken says what to do', async (words, next) => {
  await using admin = await administrationWithServer();
  await admin.run('agent', 'create', 'acme/hq');
  await admin.run('group', 'create', 'acme', 'sales');

  await expect(admin.run(...words)).rejects.toThrow(
    expect.objectContaining({
      name: 'CommandError',
      message: expect.stringContaining('already exists'),
      hint: expect.stringMatching(new RegExp(`^choose another name.*${next}`)),
    }),
  );
});

test('limits are set one by one, shown, and removed', async () => {
  await using admin = await administrationWithServer();
  await admin.run('server', 'limit', 'acme/web', '--calls-per-minute', '60');
  await admin.run('server', 'limit', 'acme/web', '--answer-bytes', '4096');
  await admin.run('server', 'limit', 'acme/web', '--calls-per-minute', 'none');

  expect(await admin.json('server', 'limit', 'acme/web')).toMatchObject({
    name: 'acme/web',
    calls_per_minute: null,
    answer_bytes: 4096,
    call_seconds: null,
  });
  await expect(admin.run('server', 'limit', 'acme/web', '--call-seconds', '0')).rejects.toThrow(
    "--call-seconds '0' is neither none nor a whole number, 1 to 3600",
  );
});

describe('a URL that nothing answers', () => {
  const url = 'http://127.0.0.1:9/mcp';
  const reason = 'Connection refused at 127.0.0.1:9.';
  const hint = [
    'hint: the MCP server did not pass a test: connection refused at 127.0.0.1:9',
    '      check the MCP server, or change its URL:',
    '      latchkey-server server update acme/dead --http-url URL',
  ];
  const deadUrls = async () => {
    const tried: unknown[] = [];
    const tryUrl = async (...asked: unknown[]) => {
      tried.push(asked);
      return reason;
    };
    await using stack = new AsyncDisposableStack();
    const admin = stack.use(await administration({ tryUrl }));
    const { path } = stack.use(await temporaryFolder());
    const file = join(path, 'key');
    await writeFile(file, 'secret');
    await admin.run('organization', 'create', 'acme');
    const made = stack.move();
    return {
      admin,
      tried,
      header: ['--http-header-file', `X-Api-Key=${file}`] as const,
      [Symbol.asyncDispose]: () => made.disposeAsync(),
    };
  };

  test('is named in a hint when a server is created or changed, which happens all the same', async () => {
    await using there = await deadUrls();
    const { admin, tried, header } = there;

    const made = await admin.run('server', 'create', 'acme/dead', '--http-url', url, ...header);
    const changed = await admin.run('server', 'update', 'acme/dead', '--http-url', url, ...header);

    expect(made.slice(-3)).toEqual(hint);
    expect(changed.slice(-3)).toEqual(hint);
    expect(tried).toEqual([
      [url, { 'x-api-key': 'secret' }],
      [url, { 'x-api-key': 'secret' }],
    ]);
    expect(await admin.json('server', 'list', 'acme')).toHaveLength(1);
  });

  test('is not tried with --json, without headers that the server keeps, nor where no URL was given', async () => {
    await using there = await deadUrls();
    const { admin, tried, header } = there;

    await admin.json('server', 'create', 'acme/dead', '--http-url', url, ...header);
    await admin.run('server', 'update', 'acme/dead', '--http-url', url);
    await admin.run('server', 'create', 'acme/library', '--demo');
    await admin.run('server', 'update', 'acme/dead', '--title', 'Dead');

    expect(tried).toEqual([]);
  });
});

test('a server is disabled, enabled, and removed once confirmed', async () => {
  await using admin = await administrationWithServer();
  await admin.run('key', 'create', 'acme/web', '--name', 'k');

  expect(await admin.json('server', 'disable', 'acme/web')).toMatchObject({
    disabled_at: admin.clock.now(),
  });
  expect(await admin.json('server', 'enable', 'acme/web')).toMatchObject({ disabled_at: null });
  await expect(admin.run('server', 'delete', 'acme/web')).rejects.toMatchObject({
    message: expect.stringContaining('API keys (1)'),
    hint: 'latchkey-server server delete acme/web --yes',
  });
  await admin.run('server', 'delete', 'acme/web', '--yes');
  await expect(admin.run('server', 'disable', 'acme/web')).rejects.toThrow(
    'there is no server acme/web',
  );
});

test('server delete: names the collections, deployment files and registry entry that lose the server', async () => {
  await using admin = await administrationWithServer();
  const lost = async () => {
    const refused: unknown = await admin.run('server', 'delete', 'acme/web').catch(String);
    return String(refused).split('grants (0)')[1];
  };
  const before = await lost();
  await admin.run('collection', 'create', 'acme/desk', '--member', 'web');
  const inOne = await lost();
  for (const name of ['a', 'b', 'c', 'd', 'front', 'g'])
    await admin.run('collection', 'create', `acme/${name}`, '--member', 'web');
  await admin.run('group', 'create', 'acme', 'finance');
  await admin.run('deployment', 'set', 'acme/web', '--group', 'finance');
  await admin.run('deployment', 'publish', 'acme/web', '--description', 'The web');

  expect(before).toBe('');
  expect(inOne).toBe('; it leaves the collection desk');
  expect(await lost()).toBe(
    '; it leaves the collections a, b, c, d, desk and 2 more; deployment files install it for finance: distribute new ones afterwards; its public entry in the registry disappears',
  );
});

test('a client has an old and a new secret at the same time, until the old one is revoked', async () => {
  await using admin = await administrationWithServer();
  const client = ['client', 'create', 'acme/web', '--name', 'c', '--scope', 'mcp:tools:read'];
  const made = z.object({ client_id: z.string() }).parse(await admin.json(...client));
  const rotate = ['client', 'rotate', made.client_id, '--expire-others-in-days'];
  admin.clock.advance(1);
  const next = await admin.json(...rotate, '7');

  expect(next).toMatchObject({ client_secret: expect.stringMatching(/^secret_\w{36}$/) });
  expect(await listClientSecrets(admin.stores.db, made.client_id)).toMatchObject([
    { expiresAt: undefined },
    { expiresAt: admin.clock.now() + 7 * 86_400 },
  ]);
  await expect(admin.run(...rotate, 'soon')).rejects.toMatchObject({ name: 'UsageError' });
});

test('the operator’s commands are recorded', async () => {
  await using admin = await administrationWithServer();
  await admin.run('agent', 'create', 'acme/hq');
  await admin.run('agent', 'create-key', 'acme/hq', '--name', 'second');
  const events = await newestEvents(admin.stores.db, 10);

  expect(events.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
    'operator agent.create-key',
    'operator agent.create',
    'operator server.create',
    'operator organization.create',
  ]);
});

test('a personal token is created for a person, listed by its hint, and revoked', async () => {
  await using admin = await administrationWithServer();
  const dana = 'dana@example.com';
  await admin.run('user', 'create', dana, '--organization', 'acme', '--role', 'admin');
  const made = z
    .object({ id: z.string(), token: z.string() })
    .parse(await admin.json('token', 'create', dana, '--name', 'ci'));

  expect(made.token).toMatch(/^pat_\w{36}$/);
  expect(await admin.json('token', 'list', dana)).toMatchObject([
    { id: made.id, token: `pat_…${made.token.slice(-4)}`, revoked_at: null },
  ]);
  await admin.run('token', 'revoke', dana, made.id);
  await expect(admin.run('token', 'revoke', dana, made.id)).rejects.toThrow('already revoked');
  const long = ['token', 'create', dana, '--name', 'x', '--expires-in-days', '366'];
  await expect(admin.run(...long)).rejects.toMatchObject({ name: 'UsageError' });
});
