/**
 * Over stdio, a legacy server does not say which of its open calls a question belongs to. Callers of the modern era
 * get it in the result of a call, so whichever call gets it, each must be answered.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

import { runCommandInProcess } from '#support/run-command-in-process';
import { runningAgent } from '#support/running-agent';
import { runningServer, type RunningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const child = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');
const stack = new AsyncDisposableStack();
const made = z.object({ key: z.string() });
let server: RunningServer;
let eventsFile: string;

beforeAll(async () => {
  const { path: dataDir } = stack.use(await temporaryFolder('asking'));
  const file = join(dataDir, 'stdio.json');
  eventsFile = join(dataDir, 'events');
  const command = {
    command: process.execPath,
    args: [child],
    env: { CHILD_EVENTS: eventsFile },
  };
  await writeFile(file, JSON.stringify({ servers: { 'acme/near': command } }), { mode: 0o600 });
  await runCommandInProcess(['organization', 'create', 'acme', '--data-dir', dataDir]);
  server = stack.use(await runningServer({ dataDir, args: ['--stdio-servers', file] }));
  const agent = made.parse(await server.command('agent', 'create', 'acme/berlin'));
  await server.command('server', 'create', 'acme/far', '--agent', 'berlin');
  stack.use(await runningAgent(server.base, agent.key, { far: command }));
});
afterAll(async () => {
  // Ends what the callers left open, so that agent and server need not wait for it when they stop.
  for (const name of ['near', 'far']) await server.command('server', 'disable', `acme/${name}`);
  await stack.disposeAsync();
});
beforeEach(() => writeFile(eventsFile, ''));

const because = {
  role: 'assistant' as const,
  model: 'm',
  content: { type: 'text' as const, text: 'because' },
};

/** An assistant of the modern era, which answers questions with `answer`. */
async function assistant(name: string, answer: () => Promise<typeof because>) {
  const { key } = made.parse(await server.command('key', 'create', `acme/${name}`, '--name', 'k'));
  const client = new Client(
    { name: 'modern', version: '1' },
    { capabilities: { sampling: {} }, versionNegotiation: { mode: 'auto' } },
  );
  client.setRequestHandler('sampling/createMessage', answer);
  onTestFinished(() => client.close());
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${server.base}/mcp/acme/${name}`), {
      requestInit: { headers: { 'x-api-key': key } },
    }),
  );
  return client;
}

const textOf = ({ content }: Record<string, unknown>) =>
  Array.isArray(content) ? String(Object(content[0]).text) : '';
const ask = { name: 'ask', arguments: { question: 'why?' } };
const slow = { name: 'slow', arguments: { ms: 60_000 } };
/** The events of the calls, as recorded by the children that the test started. */
const events = () => readFile(eventsFile, 'utf8');

describe.each([
  ['stdio upstream', 'near'],
  ['stdio server behind an agent', 'far'],
])('legacy %s, modern caller', (_where, name) => {
  test('of two open calls the one with a question is answered, and so is the other', async () => {
    const client = await assistant(name, async () => because);
    const gone = new AbortController();

    const before = client.callTool(slow, { signal: gone.signal }).then(textOf, String);
    const asked = await client.callTool(ask);
    gone.abort();

    expect(textOf(asked)).toBe('because');
    expect(await before).toMatch(/abort/i);
  });

  test('a call with a question while another one begins is answered, and so is the other', async () => {
    const client = await assistant(name, async () => because);

    const answers = await Promise.all([
      client.callTool(ask),
      client.callTool({ name: 'slow', arguments: { ms: 100 } }),
      client.callTool(ask),
    ]);

    expect(answers.map(textOf)).toEqual(['because', 'done', 'because']);
  });

  test('a question without a response does not delay the answer of the next call with one', async () => {
    const heard = Promise.withResolvers<void>();
    const never = new Promise<typeof because>(() => undefined);
    const answers = [never, Promise.resolve(because)];
    const client = await assistant(name, () => {
      heard.resolve();
      return answers.shift() ?? never;
    });

    client.callTool(ask).catch(() => undefined);
    await heard.promise;

    expect(textOf(await client.callTool(ask))).toBe('because');
  });

  test('a caller that disconnects before an answer has begun cancels the call', async () => {
    const client = await assistant(name, async () => because);
    const gone = new AbortController();

    const call = client.callTool(slow, { signal: gone.signal }).then(textOf, String);
    await expect.poll(events, patient).toMatch(/slow started/);
    gone.abort();

    await expect.poll(events, patient).toMatch(/slow cancelled/);
    expect(await call).toMatch(/abort/i);
  });
});
