import { expect, test } from 'vitest';
import { TranslatedEras } from '#server/eras/translated-eras';
import { eraCaller, lastOf, messagesOf, type SaidMessage } from '#support/era-caller';
import { eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { stillClock } from '#support/still-clock';

/** A server of one era alone, that says which one it is. */
function server(era: 'legacy' | 'modern', name: string) {
  return fakeUpstream(({ text, method, headers, signal }): ScriptedAnswer => {
    if (method !== 'POST') return { status: 405 };
    const { id, method: asked }: SaidMessage = JSON.parse(text);
    const say = (rest: object, status = 200) => ({
      status,
      text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }),
    });
    if (id === undefined) return { status: 202 };
    const isModern = headers['mcp-protocol-version'] === '2026-07-28';
    if (isModern !== (era === 'modern')) return say({ error: { code: -32022 } }, 400);
    const capabilities = { tools: { listChanged: true } };
    if (asked === 'server/discover')
      return say({ result: { supportedVersions: ['2026-07-28'], capabilities } });
    if (asked === 'initialize')
      return say({ result: { protocolVersion: '2025-06-18', capabilities } });
    if (asked !== 'subscriptions/listen') return say({ result: { name } });
    return { mediaType: 'text/event-stream', text: listening(name, signal) };
  });
}

async function* listening(name: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const says = (method: string, params: object) =>
    Buffer.from(eventStream(JSON.stringify({ jsonrpc: '2.0', method, params })));
  const notifications = { toolsListChanged: true };
  yield says('notifications/subscriptions/acknowledged', { notifications });
  yield says('notifications/message', { data: name });
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

const initialize = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {} },
};

const all = ['mcp:tools:read', 'mcp:tools:execute'] as const;
const less = ['mcp:tools:read'] as const;

test('a modern call goes by the handshake of another set of scopes never', async () => {
  const eras = new TranslatedEras(stillClock());
  await eraCaller(server('legacy', 'wide'), { eras, scopes: all }).modern('tools/list');
  const later = eraCaller(server('legacy', 'narrow'), { eras, scopes: less });

  expect(await lastOf(await later.modern('tools/list'))).toMatchObject({
    result: { name: 'narrow' },
  });
});

test.each([
  ['is pointed elsewhere', { upstream: { kind: 'http', url: 'http://127.0.0.1:2' } }],
  ['withholds changed tools', { changedTools: 'withhold' }],
] as const)('a modern call after its server %s goes the new way', async (_what, change) => {
  const eras = new TranslatedEras(stillClock());
  await eraCaller(server('legacy', 'before'), { eras }).modern('tools/list');
  const later = eraCaller(server('legacy', 'after'), { eras, server: change });

  expect(await lastOf(await later.modern('tools/list'))).toMatchObject({
    result: { name: 'after' },
  });
});

test('each request of a legacy session goes the way of its own, not of the handshake', async () => {
  const eras = new TranslatedEras(stillClock());
  const first = eraCaller(server('modern', 'wide'), { eras, scopes: all });
  const { sessionId = '' } = await first.legacy(initialize);
  const later = eraCaller(server('modern', 'narrow'), { eras, scopes: less });
  const within = { headers: { 'mcp-session-id': sessionId } };
  const leaving = new AbortController();
  const unasked = await later.within('GET', { ...within, signal: leaving.signal });

  expect(await lastOf(await later.legacy({ id: 2, method: 'tools/list' }, within))).toMatchObject({
    result: { name: 'narrow' },
  });

  const { value } = await messagesOf(unasked).next();
  leaving.abort();

  expect(value).toMatchObject({ method: 'notifications/message', params: { data: 'narrow' } });
});
