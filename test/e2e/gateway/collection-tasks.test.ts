/**
 * Tasks of protocol version 2025-11-25 at a member of a collection: the caller that began a task is notified of its status and progress,
 * under the id and the token that the caller knows. No other caller is notified.
 */
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { bodyOf, countedServer } from '#support/counted-server';
import { acceptsBoth, initialize, mcpCall, rpc } from '#support/mcp-call';
import { mcpListening } from '#support/mcp-listening';
import { patient } from '#support/patient';
import { runningServer, type RunningServer } from '#support/running-server';

const version = '2025-11-25';
const askedSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().optional(),
  params: z
    .object({ _meta: z.object({ progressToken: z.unknown().optional() }).optional() })
    .optional(),
});

/** A member of the older era with sessions, which answers each call with a task. */
async function memberWithTasks(name: string) {
  const streams = new Map<string, ServerResponse>();
  const begun: { readonly session: string; readonly token: unknown }[] = [];
  let sessions = 0;
  const results: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: version,
      capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
      serverInfo: { name, version: '1' },
    },
    'tools/list': {
      tools: [
        {
          name: `ask_${name}`,
          inputSchema: { type: 'object' },
          execution: { taskSupport: 'optional' },
        },
      ],
    },
  };
  const server = await countedServer(async (request, response) => {
    const session = String(request.headers['mcp-session-id']);
    if (request.method === 'GET') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
      return void streams.set(session, response);
    }
    const {
      id,
      method = '',
      params,
    } = askedSchema.parse(JSON.parse((await bodyOf(request)) || '{}'));
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'initialize') {
      sessions += 1;
      response.setHeader('Mcp-Session-Id', `session-${sessions}`);
    }
    const isCall = method === 'tools/call';
    if (isCall) begun.push({ session, token: params?._meta?.progressToken });
    const task = { taskId: `task-${begun.length}`, status: 'working' };
    const result = isCall ? { task } : results[method];
    const error = { code: -32_601, message: 'Method not found' };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
  });
  return {
    server,
    begun,
    sessions: () => sessions,
    /** Sends a message to one session, or to all, as a server that takes the gateway for one client may. */
    say(method: string, params: object, to?: string) {
      const event = `data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`;
      for (const [session, stream] of streams) if (!to || to === session) stream.write(event);
    },
    hears: (session: string) => streams.has(session),
  };
}

const stack = new AsyncDisposableStack();
let server: RunningServer;
let member: Awaited<ReturnType<typeof memberWithTasks>>;
let quiet: Awaited<ReturnType<typeof memberWithTasks>>;

beforeAll(async () => {
  [member, quiet] = [await memberWithTasks('sales'), await memberWithTasks('wiki')];
  stack.use(member.server);
  stack.use(quiet.server);
  server = stack.use(await runningServer());
  await server.command('organization', 'create', 'acme');
  for (const [name, one] of Object.entries({ sales: member, wiki: quiet })) {
    const url = `${one.server.origin}/mcp`;
    await server.command('server', 'create', `acme/${name}`, '--http-url', url);
  }
  const members = ['--member', 'sales', '--member', 'wiki'];
  await server.command('collection', 'create', 'acme/desk', ...members);
});
afterAll(() => stack.disposeAsync());

/** A key of the collection, and a session with it that listens. */
async function assistant() {
  const made = await server.command('key', 'create', 'acme/desk', '--name', 'k');
  const { key } = z.object({ key: z.string() }).parse(made);
  const endpoint = `${server.base}/mcp/acme/desk`;
  const accept = acceptsBoth;
  const opened = await mcpCall(endpoint, { key, body: initialize(version), headers: { accept } });
  const headers = {
    accept,
    'mcp-protocol-version': version,
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
  };
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const { body } = await fetch(endpoint, {
    headers: { ...headers, accept: 'text/event-stream', 'x-api-key': key },
    signal: ending.signal,
  });
  let heard = '';
  void (async () => {
    for await (const chunk of body ?? []) heard += Buffer.from(chunk).toString();
  })().catch(() => undefined);
  return {
    key,
    opened: opened.text,
    heard: () => heard,
    async ask(method: string, params: object) {
      const { text } = await mcpCall(endpoint, { key, headers, body: rpc(method, params, 7) });
      const [, data = text] = /^data: (.*)$/m.exec(text) ?? [];
      return data;
    },
  };
}

/** Begins a task of the member `sales`. Returns the id by which the caller knows the task. */
async function begunBy(caller: Awaited<ReturnType<typeof assistant>>): Promise<string> {
  const params = { name: 'ask_sales', task: {}, _meta: { progressToken: 7 } };
  const answer = z
    .object({ result: z.object({ task: z.object({ taskId: z.string() }) }) })
    .parse(JSON.parse(await caller.ask('tools/call', params)));
  return answer.result.task.taskId;
}

test('news of a task reach the caller who began it, and no other', async () => {
  const [mine, other] = [await assistant(), await assistant()];
  expect(mine.opened).toContain('"tasks":{"requests":{"tools":{"call":{}}}}');
  const [taskId, otherId] = [await begunBy(mine), await begunBy(other)];
  await expect
    .poll(() => member.begun.every(({ session }) => member.hears(session)), patient)
    .toBe(true);

  const [first] = member.begun;
  member.say('notifications/tasks/status', { taskId: 'task-1', status: 'input_required' });
  const progressed = { progressToken: first?.token, progress: 3 };
  member.say('notifications/progress', progressed, first?.session);
  member.say('notifications/tasks/status', { taskId: 'task-2', status: 'completed' });

  await expect.poll(mine.heard, patient).toContain('"progress":3');
  await expect.poll(other.heard, patient).toContain('"completed"');
  expect(mine.heard()).toContain(`"taskId":"${taskId}","status":"input_required"`);
  expect(mine.heard()).toContain('"progressToken":7');
  expect(mine.heard()).not.toContain('completed');
  expect(other.heard()).toContain(`"taskId":"${otherId}"`);
  expect(other.heard()).not.toContain('input_required');
});

test('a modern caller of the collection, whose era has other tasks, is told nothing', async () => {
  const mine = await assistant();
  const taskId = await begunBy(mine);
  await using listening = await mcpListening(`${server.base}/mcp/acme/desk`, {
    key: mine.key,
    notifications: { toolsListChanged: true },
  });
  await expect.poll(() => member.hears(member.begun.at(-1)?.session ?? ''), patient).toBe(true);

  const raw = `task-${member.begun.length}`;
  member.say('notifications/tasks/status', { taskId: raw, status: 'working' });

  await expect.poll(mine.heard, patient).toContain(taskId);
  expect(listening.heard()).not.toContain('tasks/status');
});

test('a change of one member leaves the sessions at the others open, and news of tasks go on', async () => {
  const mine = await assistant();
  await begunBy(mine);
  await mine.ask('tools/call', { name: 'ask_wiki', arguments: {} });
  const before = quiet.sessions();

  await server.command('server', 'hide-tools', 'acme/sales', '--tool', 'never_listed');
  const taskId = await begunBy(mine);
  await mine.ask('tools/call', { name: 'ask_wiki', arguments: {} });
  const latest = member.begun.at(-1)?.session ?? '';
  await expect.poll(() => member.hears(latest), patient).toBe(true);
  const raw = `task-${member.begun.length}`;
  member.say('notifications/tasks/status', { taskId: raw, status: 'working' });

  await expect.poll(mine.heard, patient).toContain(taskId);
  expect(quiet.sessions()).toBe(before);
});
