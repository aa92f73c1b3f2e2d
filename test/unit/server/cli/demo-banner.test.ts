import { expect, test } from 'vitest';
import { checkClientSecret } from '#server/db/client-secrets';
import { keysOf, clientsOf } from '#support/made-records';
import { findServer } from '#server/db/servers';
import { demoBanner } from '#server/cli/demo-banner';
import { hashSecret } from '#server/secrets/secrets';
import { administration } from '#support/administration';

const base = 'http://127.0.0.1:8787';
const place = {
  base,
  proxyCommand: ['/usr/bin/node', '/opt/latchkey.js'],
  typedProxy: 'the proxy',
  typedServer: (words: string) => `the-server ${words} --data-dir /srv/data`,
} as const;
const secretPattern = /(secret|mcp)_[0-9A-Za-z]{36}/g;

test('demo: the first start creates the endpoint, and shows one command and no secret', async () => {
  await using admin = await administration();
  const lines = await demoBanner(place, false, admin);

  expect(lines).toContain(`  the proxy setup ${base}/mcp/demo/library`);
  expect(lines).toContain('  the-server start --demo --show-demo-credentials --data-dir /srv/data');
  expect(lines.join('\n')).not.toMatch(secretPattern);
  expect(lines.length).toBeLessThan(12);
  expect(await clientsOf(admin.stores.db, 'demo', 'library')).toEqual([]);
  expect(await keysOf(admin.stores.db, 'demo', 'library')).toEqual([]);
});

test('demo: with credentials, they are shown with where to paste them, also at a later start', async () => {
  await using admin = await administration();
  await demoBanner(place, false, admin);
  const lines = await demoBanner(place, true, admin);
  const [pasted, kept] = lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
  const [client] = await clientsOf(admin.stores.db, 'demo', 'library');
  const [key] = await keysOf(admin.stores.db, 'demo', 'library');
  const { oauth } = kept.mcpServers.demo;
  const keyViewSchema = /mcp_[0-9A-Za-z]{36}/.exec(lines.join('\n'))?.[0] ?? '';

  expect(await findServer(admin.stores.db, 'demo', 'library')).toMatchObject({
    target: { upstream: { kind: 'demo' } },
  });
  expect(kept).toEqual({ mcpServers: { demo: { url: `${base}/mcp/demo/library`, oauth } } });
  expect(oauth).toEqual({
    clientId: client?.id,
    clientSecret: expect.stringMatching(/^secret_/),
    scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
  });
  expect(pasted.mcpServers.demo).toEqual({
    command: '/usr/bin/node',
    args: ['/opt/latchkey.js', `${base}/mcp/demo/library`],
    env: { LATCHKEY_OAUTH: JSON.stringify(oauth) },
  });
  expect(
    await checkClientSecret(admin.stores.db, oauth.clientId, hashSecret(oauth.clientSecret), 0),
  ).toBe(true);
  expect(client?.scopes).toEqual(oauth.scopes);
  expect(key?.scopes).not.toContain('mcp:server:manage');
  expect(key?.scopes).toHaveLength(4);
  expect(key?.hint.slice(-4)).toBe(keyViewSchema.slice(-4));
  expect(lines).toContain(`curl ${base}/mcp/demo/library \\`);
  expect(lines.join('\n')).toContain('for the proxy demo --config demo.json:');
  expect(lines.indexOf(`  the proxy setup ${base}/mcp/demo/library`)).toBeGreaterThan(0);
  const firstSecret = lines.findIndex((line) => line.search(secretPattern) >= 0);
  expect(lines.indexOf(`  the proxy add library ${base}/mcp/demo/library --api-key`)).toBeLessThan(
    firstSecret,
  );
});

test('demo: once it has credentials, a start shows no secret, creates nothing, and says how to create new ones', async () => {
  await using admin = await administration();
  await demoBanner(place, true, admin);
  const text = (await demoBanner(place, true, admin)).join('\n');

  expect(text).not.toMatch(secretPattern);
  expect(text).toContain(`${base}/mcp/demo/library`);
  expect(text).toContain('the-server client create demo/library');
  expect(text).toContain('the-server key create demo/library');
  expect(await clientsOf(admin.stores.db, 'demo')).toHaveLength(1);
  expect(await keysOf(admin.stores.db, 'demo')).toHaveLength(1);
});

test('demo: the commands that create new credentials work', async () => {
  await using admin = await administration();
  await demoBanner(place, true, admin);
  const text = (await demoBanner(place, true, admin)).join('\n');
  const shown = [...text.matchAll(/the-server (.*) --data-dir \/srv\/data$/gm)].map(
    ([, line = '']) => [...line.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word),
  );
  for (const argv of shown) await admin.run(...argv);

  expect(shown).toHaveLength(2);
  expect(await clientsOf(admin.stores.db, 'demo')).toHaveLength(2);
  expect(await keysOf(admin.stores.db, 'demo')).toHaveLength(2);
});
