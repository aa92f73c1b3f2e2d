import { expect, test } from 'vitest';
import { z } from 'zod';
import { mcpCall } from '#support/mcp-call';
import { patient } from '#support/patient';
import { runningServer } from '#support/running-server';

test('a server that stops with --shutdown-delay is not ready any more, and continues to serve', async () => {
  await using server = await runningServer({ args: ['--shutdown-delay', '300'] });
  await server.command('organization', 'create', 'acme');
  await server.command('server', 'create', 'acme/library', '--demo');
  const made = await server.command('key', 'create', 'acme/library', '--name', 'k');
  const { key } = z.object({ key: z.string() }).parse(made);
  const readiness = async () => (await fetch(`${server.base}/readyz`)).status;
  expect(await readiness()).toBe(200);

  server.program.kill('SIGTERM');
  await expect.poll(readiness, patient).toBe(503);
  const answer = await mcpCall(`${server.base}/mcp/acme/library`, { key });

  expect(answer.status).toBe(200);
  // A second signal ends it without a delay.
  server.program.kill('SIGTERM');
  expect(await server.program.exited).toMatchObject({ signal: 'SIGTERM' });
});
