import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { z } from 'zod';

import { selfSigned } from '#support/certificates';
import { freePort } from '#support/loopback';
import { mcpCall, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { runningAgent } from '#support/running-agent';
import { runningServer } from '#support/running-server';
import { tlsServer } from '#support/tls-server';

/** An MCP server whose tool `crashing` ends the process. */
const child = join(import.meta.dirname, '../../support/activity-story/story-child.ts');
const made = z.object({ key: z.string() });
const listed = z.array(z.object({ outcome: z.string(), error: z.string().nullable() }));

test('activity: why an agent does not reach its server is recorded, as for a server without an agent', async () => {
  await using tls = await tlsServer(await selfSigned());
  await using server = await runningServer();
  await server.command('organization', 'create', 'acme');
  const { key: agentKey } = made.parse(await server.command('agent', 'create', 'acme/berlin'));
  const servers = {
    nowhere: { url: 'http://nowhere.invalid/mcp' },
    certificate: { url: `https://127.0.0.1:${tls.port}/mcp` },
    down: { url: `http://127.0.0.1:${await freePort()}/mcp` },
    crashing: { command: process.execPath, args: [child, join(server.dataDir, 'received')] },
  };
  const names = [...Object.keys(servers), 'unserved'];
  for (const name of names) {
    await server.command('server', 'create', `acme/${name}`, '--agent', 'berlin');
  }
  await using _agent = await runningAgent(server.base, agentKey, servers);
  for (const name of names) {
    const { key } = made.parse(
      await server.command('key', 'create', `acme/${name}`, '--name', 'k'),
    );
    const body = rpc('tools/call', { name, arguments: {} });
    const { status } = await mcpCall(`${server.base}/mcp/acme/${name}`, { key, body });
    expect(status).toBe(502);
  }

  const recorded = await vi.waitFor(async () => {
    const rows = await Promise.all(
      names.map(async (name) => listed.parse(await server.command('call', 'list', `acme/${name}`))),
    );
    expect(rows.map(({ length }) => length)).toEqual([1, 1, 1, 1, 1]);
    return rows.flat();
  }, patient);

  expect(recorded.map(({ outcome, error }) => [outcome, error])).toEqual([
    ['upstream_error', 'upstream_unknown_host'],
    ['upstream_error', 'upstream_tls_failed'],
    ['upstream_error', 'upstream_unreachable'],
    ['upstream_error', 'upstream_broke_off'],
    ['upstream_error', 'upstream_not_served'],
  ]);
});
