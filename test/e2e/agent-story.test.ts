import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentServer, type AgentServer } from '#support/agent-server';
import { mcpCall } from '#support/mcp-call';
import { startProgram, type Program } from '#support/processes';
import { launcher } from '#support/proxy-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const script = join(import.meta.dirname, '../support/local-server/stdio-child.ts');
const limit = { timeoutMs: 30_000 };

let folder: TemporaryFolder;
let server: AgentServer;
let agent: Program;
beforeAll(async () => {
  folder = await temporaryFolder('story');
  server = await agentServer();
  agent = await startAgent();
});
afterAll(async () => {
  await agent.end();
  await server[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

/** The real agent, once it serves. */
async function startAgent(): Promise<Program> {
  const config = join(folder.path, 'agent.json');
  const env = { CHILD_EVENTS: join(folder.path, 'events') };
  const sales = { command: process.execPath, args: [script], env, denyTools: ['shout'] };
  await writeFile(config, JSON.stringify({ servers: { sales } }));
  const started = startProgram(process.execPath, {
    args: [launcher, 'agent', '--server-url', server.base, '--config', config],
    env: { HOME: folder.path, LATCHKEY_AGENT_KEY: server.agent.key },
    endLimitMs: 20_000,
  });
  await started.line(/serving sales/, limit);
  return started;
}

/** An assistant of the older era that knows no more than the endpoint and a key. */
async function assistant(): Promise<Client> {
  const client = new Client({ name: 'story', version: '1' }, { capabilities: { sampling: {} } });
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    role: 'assistant',
    model: 'm',
    content: { type: 'text', text: 'because' },
  }));
  const headers = { 'X-API-Key': server.mcpKey };
  const transport = new StreamableHTTPClientTransport(new URL(server.endpoint), {
    requestInit: { headers },
  });
  await client.connect(transport);
  return client;
}

const events = () => readFileSync(join(folder.path, 'events'), 'utf8');
const textOf = ({ content }: Awaited<ReturnType<Client['callTool']>>) =>
  Array.isArray(content) ? String(content[0]?.text) : '';

test('an assistant reaches the server behind the agent: lists, calls, progress, sampling', async () => {
  const client = await assistant();
  const steps: number[] = [];

  const { tools } = await client.listTools();
  const big = await client.callTool({ name: 'big', arguments: { bytes: 10_000_000 } });
  const progress = { name: 'progress', arguments: { steps: 3 } };
  await client.callTool(progress, undefined, { onprogress: (at) => steps.push(at.progress) });
  const asked = await client.callTool({ name: 'ask', arguments: { question: 'why' } });

  expect(tools.map(({ name }) => name)).toContain('echo');
  expect(tools.map(({ name }) => name)).not.toContain('shout');
  expect(textOf(big)).toHaveLength(10_000_000);
  expect(steps).toEqual([1, 2, 3]);
  expect(textOf(asked)).toBe('because');
  await client.close();
});

test('a call that the assistant cancels is cancelled at the child', async () => {
  const client = await assistant();
  const gone = new AbortController();
  const slow = { name: 'slow', arguments: { ms: 60_000 } };
  const call = client.callTool(slow, undefined, { signal: gone.signal });
  const failed = call.then(() => 'answered', String);
  await expect.poll(events, { timeout: 30_000 }).toContain('slow started');

  gone.abort('no longer needed');
  const said = await failed;

  await expect.poll(events, { timeout: 30_000 }).toContain('slow cancelled');
  expect(said).toContain('no longer needed');
  await client.close();
});

test('a request without any handshake is answered through the agent', async () => {
  const { status, text } = await mcpCall(server.endpoint, { key: server.mcpKey });

  expect(status).toBe(200);
  expect(text).toContain('"echo"');
});

test('an agent killed inside a call costs one error, and its successor serves the next', async () => {
  const client = await assistant();
  const slowCalls = () => events().split('slow started').length;
  const before = slowCalls();
  const call = client.callTool({ name: 'slow', arguments: { ms: 60_000 } });
  const failed = call.then(() => 'answered', String);
  await expect.poll(slowCalls, { timeout: 30_000 }).toBe(before + 1);

  agent.kill('SIGKILL');
  await agent.exited;
  const error = await failed;
  agent = await startAgent();
  const again = await assistant();
  const said = await again.callTool({ name: 'echo', arguments: { text: 'back' } });

  expect(error).toContain('its answer broke off');
  expect(textOf(said)).toBe('back');
  await again.close();
});

test('a revoked key ends the tunnel, and the agent says what to do', async () => {
  await server.command('agent', 'revoke', server.agent.id);

  await agent.line(/the key was revoked|does not accept the agent's key/, limit);
  await expect(assistant()).rejects.toThrow(/agent|offline/i);
});
