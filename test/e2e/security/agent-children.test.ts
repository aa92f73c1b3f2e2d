import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { agentServer, type AgentServer } from '#support/agent-server';
import { runningAgent } from '#support/running-agent';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const child = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');
const made = z.object({ id: z.string(), key: z.string() });
const stack = new AsyncDisposableStack();
let server: AgentServer;
let events: string;

beforeAll(async () => {
  const folder = stack.use(await temporaryFolder('agent-children'));
  events = join(folder.path, 'events');
  server = stack.use(await agentServer());
  const env = { CHILD_EVENTS: events };
  const sales = { command: process.execPath, args: [child, 'modern'], env };
  stack.use(await runningAgent(server.base, server.agent.key, { sales }));
});
afterAll(() => stack.disposeAsync());

async function started(): Promise<number[]> {
  const lines = (await readFile(events, 'utf8')).matchAll(/^started (\d+)$/gm);
  return [...lines].map(([, pid]) => Number(pid));
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('71: agent: the child of a caller without a session ends when their key is revoked, and no other does', async () => {
  await server.call();
  const others = await started();
  const { id, key } = made.parse(
    await server.command('key', 'create', 'acme/sales', '--name', 'k'),
  );
  const { status, text } = await server.call('n', { key });
  const pids = (await started()).slice(others.length);

  expect([status, text]).toEqual([200, expect.stringContaining('"result"')]);
  expect([others, pids].map((all) => all.filter(isAlive).length)).toEqual([others.length, 1]);

  await server.command('key', 'revoke', id);

  await expect.poll(() => pids.filter(isAlive), patient).toEqual([]);
  expect(others.every(isAlive)).toBe(true);
});
