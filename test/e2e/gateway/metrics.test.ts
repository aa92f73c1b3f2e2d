import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { acmeServer, bearer } from '#support/acme-server';
import { launcher } from '#support/running-server';
import { runProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';

const ofNodes = ['latchkey_clock_skew_seconds', 'latchkey_nats_up', 'latchkey_nats_probe_seconds'];
const dashboard = join(import.meta.dirname, '../../../deploy/grafana/latchkey.json');

test('metrics: calls and refusals of a running server, without any credential, person or client', async () => {
  await using server = await acmeServer({ args: ['--metrics-address', '127.0.0.1:0'] });
  const [, url = ''] = /^metrics: (http:\S+)$/m.exec(server.program.stdout) ?? [];
  const { id, key } = await server.key();
  const client = await server.client();
  await server.call(bearer(key));
  await server.call(bearer(await server.token(client)));
  await server.call(bearer('mcp_wrong'));

  const text = await (await fetch(url)).text();

  expect(text).toContain(
    'latchkey_calls_total{organization="acme",server="fixture",outcome="ok"} 2',
  );
  expect(text).toContain('latchkey_refusals_total{code="bad_credential"} 1');
  expect(text).toMatch(
    /^mcp_server_operation_duration_seconds_count\{mcp_method_name="tools\/list"\} 2$/m,
  );
  expect(text).toContain('latchkey_database_up 1');
  for (const secret of [id, key, client.id, client.secret]) expect(text).not.toContain(secret);
  expect((await server.request('/metrics')).status).toBe(404);

  const names = new Set(
    (await readFile(dashboard, 'utf8')).match(/\b(?:latchkey|process)_[a-z_]+/g) ?? [],
  );
  // Only nodes that share a database have these: see shared-counts.test.ts.
  for (const name of ofNodes) names.delete(name);
  expect([...names].filter((name) => !text.includes(`\n${name}`))).toEqual([]);
});

test('metrics: an address without a port is refused', async () => {
  await using folder = await temporaryFolder('metrics');
  const start = (address: string) =>
    runProgram(process.execPath, {
      args: [launcher, 'start', '--data-dir', folder.path, '--metrics-address', address],
    });

  const { code, stderr } = await start('127.0.0.1');

  expect([code, stderr]).toEqual([2, expect.stringContaining("'127.0.0.1' is not HOST:PORT")]);
});
