import { rename } from 'node:fs/promises';

import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { throughSteps, type UpstreamAnswer, type UpstreamRequest } from '#server/gateway/upstream';
import { SkillFolder } from '#server/upstreams/skills/skill-folder';
import { SkillSessions } from '#server/upstreams/skills/sessions';
import { skillStep } from '#server/upstreams/skills/skills';
import { type ScriptedAnswer, fakeUpstream } from '#support/fake-upstream';
import { modern, rpc } from '#support/mcp-call';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';

const manifest = 'skill://orders/SKILL.md';
const temporary = await temporaryFolder();
const onProblem = vi.fn();
const onError = vi.fn();
let folder: SkillFolder;

beforeAll(async () => {
  await writeFiles(temporary.path, {
    'orders/SKILL.md': skillText('orders'),
    'returns/SKILL.md': skillText('returns'),
  });
  folder = await SkillFolder.open(temporary.path, { onProblem, onError });
});

afterAll(async () => {
  await folder.close();
  await temporary[Symbol.asyncDispose]();
});

const json = 'application/json';
const post = { accept: 'application/json, text/event-stream', 'content-type': json };
const unknown = { text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}' };
const result = (text: string): ScriptedAnswer => ({
  text: `{"jsonrpc":"2.0","id":1,"result":${text}}`,
});

/** A server with skills whose upstream answers by a script, for one caller. */
function skilled(script: Parameters<typeof fakeUpstream>[0]) {
  const upstream = fakeUpstream(script);
  const sessions = new SkillSessions();
  const front = (owner: string) => ({
    send: throughSteps([skillStep({ folder, sessions, owner })], (sent) => upstream.send(sent)),
  });
  const send = (
    body: string | undefined,
    {
      headers = {},
      method = 'POST',
      signal = new AbortController().signal,
      owner = 'key:a srv',
    }: {
      headers?: Record<string, string>;
      method?: UpstreamRequest['method'];
      signal?: AbortSignal;
      owner?: string;
    } = {},
  ) =>
    front(owner).send({
      method,
      signal,
      headers: { ...post, ...headers },
      ...(body !== undefined && { body: Buffer.from(body) }),
    });
  return { upstream, send };
}

async function textOf({ body }: UpstreamAnswer): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body instanceof Uint8Array ? [body] : body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

test('our entries come before the upstream’s, whose bytes stay, and are not cached', async () => {
  const theirs =
    '{"big":9007199254740993,"resources":[{"uri":"memo://a" , "size":1.50},{"uri":"skill://orders/SKILL.md"}],"nextCursor":"n","ttlMs":60000,"cacheScope":"public"}';
  const { send } = skilled(() => result(theirs));
  const text = await textOf(await send(rpc('resources/list')));

  expect(text).toContain('"big":9007199254740993');
  expect(text).toContain('{"uri":"memo://a" , "size":1.50}');
  expect(text).toContain('"nextCursor":"n","ttlMs":0,"cacheScope":"private"');
  expect(text.match(/skill:\/\/orders\/SKILL\.md/g)).toHaveLength(1);
  expect(text.indexOf('skill://orders')).toBeLessThan(text.indexOf('memo://a'));
});

test('the upstream’s next page is its own, except for what the folder serves', async () => {
  const { upstream, send } = skilled(() =>
    result(`{"resources":[{"uri":"${manifest}"},{"uri":"memo://b"}]}`),
  );
  const text = await textOf(await send(rpc('resources/list', { cursor: 'n' })));

  expect(upstream.sent[0]?.text).toContain('"cursor":"n"');
  expect(text).toContain('"resources":[{"uri":"memo://b"}]');
});

test.each(['resources/list', 'resources/templates/list', 'skills/list'])(
  'an upstream without %s leaves ours unchanged',
  async (method) => {
    const { send } = skilled(() => unknown);
    const modernHere = modern(method);
    const old = await send(rpc(method));
    const recent = await send(modernHere.body, { headers: modernHere.headers });

    expect(await textOf(old)).toContain('skill://');
    expect([old.status, old.mediaType, recent.status]).toEqual([200, json, 200]);
    expect(await textOf(recent)).toContain('"resultType":"complete"');
  },
);

test('a failure of the upstream is not answered with half a list', async () => {
  const { send } = skilled(() => ({ status: 503, mediaType: 'text/plain', text: 'busy' }));
  const answer = await send(rpc('resources/list'));

  expect([answer.status, await textOf(answer)]).toEqual([503, 'busy']);
});

test('a session that the upstream forgot is reported as such, not as an unknown method', async () => {
  const gone = '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}';
  const { send } = skilled(() => ({ status: 404, text: gone }));

  expect(await send(rpc('resources/list'))).toMatchObject({ status: 404 });
});

test('files of the folder are read without the upstream, and anything else from it', async () => {
  const { upstream, send } = skilled(() => result('{"contents":[{"uri":"x","text":"theirs"}]}'));
  const ours = await textOf(await send(rpc('resources/read', { uri: manifest })));
  const asked = upstream.sent.length;
  const theirs = await textOf(
    await send(rpc('resources/read', { uri: 'skill://theirs/SKILL.md' })),
  );
  const other = await textOf(await send(rpc('resources/read', { uri: 'memo://a' })));

  expect(ours).toContain('# orders');
  expect(asked).toBe(0);
  expect([theirs, other].every((text) => text.includes('theirs'))).toBe(true);
});

test('79: a URI that leads out of the folder reaches neither folder nor upstream', async () => {
  const { upstream, send } = skilled(() => unknown);

  for (const method of ['resources/read', 'skills/get', 'resources/subscribe']) {
    await expect(send(rpc(method, { uri: 'skill://orders/../../x' }))).rejects.toMatchObject({
      code: 'bad_params',
      message: 'the URI leads out of its folder',
    });
  }
  expect(upstream.sent).toEqual([]);
});

test('capabilities are added to the upstream’s', async () => {
  const theirs =
    '{"capabilities":{"tools":{"listChanged":true},"resources":{},"extensions":{"x":{}}},"serverInfo":{"name":"a"}}';
  const { send } = skilled(() => ({ ...result(theirs), sessionId: 's' }));
  const answer = await send(rpc('initialize', {}));

  expect(answer.sessionId).toBe('s');
  expect(JSON.parse(await textOf(answer))).toMatchObject({
    result: {
      serverInfo: { name: 'a' },
      capabilities: {
        tools: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        extensions: { x: {}, 'io.modelcontextprotocol/skills': { directoryRead: true } },
      },
    },
  });
});

test('a session of ours reaches no upstream without sessions, and no other owner', async () => {
  const { upstream, send } = skilled(({ method }) =>
    method === 'GET' ? { status: 405 } : result('{"capabilities":{}}'),
  );
  const { sessionId = '' } = await send(rpc('initialize', {}));
  const headers = { 'mcp-session-id': sessionId };
  await send(rpc('tools/list'), { headers });
  const foreign = await send(rpc('tools/list'), { headers, owner: 'key:b srv' });
  const ended = await send(undefined, { headers, method: 'DELETE' });
  const after = await send(rpc('tools/list'), { headers });

  expect(sessionId).toMatch(/^skills-[\w-]{32}$/);
  expect(upstream.sent).toHaveLength(2);
  for (const sent of upstream.sent) expect(sent.headers).not.toHaveProperty('mcp-session-id');
  expect([foreign.status, ended.status, after.status]).toEqual([404, 204, 404]);
});

test('a call that is cancelled in a session of ours ends at the upstream', async () => {
  const signals: AbortSignal[] = [];
  const { send } = skilled(({ text, signal }) => {
    if (text.includes('initialize')) return result('{"capabilities":{}}');
    signals.push(signal);
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new DOMException('ended', 'AbortError')));
    });
  });
  const { sessionId = '' } = await send(rpc('initialize', {}));
  const headers = { 'mcp-session-id': sessionId };
  const call = send(rpc('tools/call', { name: 'slow' }, 7), { headers });
  const cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}';
  const answer = await send(cancelled, { headers });

  await expect(call).rejects.toMatchObject({ code: 'cancelled' });
  expect(answer.status).toBe(202);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
});

test('a session is notified of changes while it did not listen, then of later ones', async () => {
  const { send } = skilled(({ method }) =>
    method === 'GET' ? { status: 405 } : result('{"capabilities":{}}'),
  );
  const { sessionId = '' } = await send(rpc('initialize', {}));
  const headers = { 'mcp-session-id': sessionId };
  await send(rpc('resources/subscribe', { uri: manifest }), { headers });
  await writeFiles(temporary.path, { 'later/SKILL.md': skillText('later') });
  await folder.refresh();
  const ending = new AbortController();
  const { body } = await send(undefined, { headers, method: 'GET', signal: ending.signal });
  if (body instanceof Uint8Array) throw new Error('no stream');
  const events = body[Symbol.asyncIterator]();
  const missed = Buffer.from((await events.next()).value ?? []).toString();
  const next = events.next();
  await writeFiles(temporary.path, { 'orders/SKILL.md': skillText('orders', 'Other words.') });
  await folder.refresh();
  const heard = [await next, await events.next()].map(({ value }) =>
    Buffer.from(value ?? []).toString(),
  );
  const last = events.next();
  ending.abort();

  expect(missed).toContain('notifications/resources/list_changed');
  expect(heard[0]).toContain('notifications/resources/list_changed');
  expect(heard[1]).toContain(`"params":{"uri":"${manifest}"}`);
  expect((await last).done).toBe(true);
  expect(folder.serves('skill://later/SKILL.md')).toBe(true);
});

test.each([
  ['405', { status: 405 }],
  ['JSON', result('{}')],
])(
  'a session at an upstream that answers a GET with %s gets the stream of the skills',
  async (_, answer) => {
    const { upstream, send } = skilled(({ method }) =>
      method === 'GET' ? answer : { ...result('{"capabilities":{}}'), sessionId: 'upstream-1' },
    );
    const { sessionId = '' } = await send(rpc('initialize', {}));
    const headers = { 'mcp-session-id': sessionId };
    const ending = new AbortController();
    const stream = await send(undefined, { headers, method: 'GET', signal: ending.signal });
    ending.abort();

    expect(upstream.sent.map(({ method }) => method)).toEqual(['POST', 'GET']);
    expect(stream).toMatchObject({ status: 200, mediaType: 'text/event-stream' });
  },
);

test('a modern listener at an upstream without subscriptions is notified of the skills alone', async () => {
  const { send } = skilled(() => ({ ...unknown, status: 404 }));
  const asked = modern('subscriptions/listen', {
    notifications: { toolsListChanged: true, resourceSubscriptions: [manifest] },
  });
  const ending = new AbortController();
  const { body, mediaType } = await send(asked.body, {
    headers: asked.headers,
    signal: ending.signal,
  });
  if (body instanceof Uint8Array) throw new Error('no stream');
  const events = body[Symbol.asyncIterator]();
  const first = Buffer.from((await events.next()).value ?? []).toString();
  const next = events.next();
  ending.abort();

  expect(mediaType).toBe('text/event-stream');
  expect(first).toContain(
    `"notifications":{"resourceSubscriptions":["${manifest}"]},"_meta":{"io.modelcontextprotocol/subscriptionId":1}`,
  );
  expect((await next).done).toBe(true);
});

test('a folder that disappeared leaves its last content, and is reported once', async () => {
  await using gone = await temporaryFolder();
  await writeFiles(gone.path, { 'skills/a/SKILL.md': skillText('a') });
  const told = vi.fn();
  const root = `${gone.path}/skills`;
  const other = await SkillFolder.open(root, { onProblem, onError: told });
  // Removes the folder in one step, because a folder that is emptied first is read without its files.
  await rename(root, `${root}.gone`);
  await other.refresh();
  await other.refresh();
  const still = other.serves('skill://a/SKILL.md');
  await other.close();

  expect(still).toBe(true);
  expect(told).toHaveBeenCalledOnce();
});
