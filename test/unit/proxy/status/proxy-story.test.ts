import { expect, test } from 'vitest';
import { readMessage } from '#proxy/jsonrpc/message';
import { observedUpstream } from '#proxy/status/observed-upstream';
import { proxyStory } from '#proxy/status/proxy-story';
import { shownUrl } from '#proxy/status/shown-url';
import { fakeClock } from '#support/fake-clock';

const message = (value: object) => readMessage(Buffer.from(JSON.stringify(value)));
const initialize = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', clientInfo: { name: 'Claude', version: '9' } },
};

/** A story, with an upstream that answers what it is told to. */
function observed() {
  const clock = fakeClock();
  const beginning = { pid: 7, name: 'acme', url: 'https://acme.example/mcp' };
  const story = proxyStory(beginning, clock, () => undefined);
  let answer: object | Error = { result: {} };
  const upstream = observedUpstream(
    {
      async send(_request, deliver) {
        if (answer instanceof Error) throw answer;
        await deliver(message({ id: 1, ...answer }));
      },
      listen: () => Promise.resolve(),
      close: () => Promise.resolve(),
    },
    story,
    (error) => ({ state: 'trouble', reason: String(error) }),
  );
  const ask = async (
    value: object,
    answered: object | Error,
    signal = new AbortController().signal,
  ) => {
    answer = answered;
    await upstream.send(message(value), () => Promise.resolve(), signal).catch(() => undefined);
  };
  return { clock, story, ask };
}

test('proxy status: connecting until the server has answered', async () => {
  const { story, ask, clock } = observed();
  const before = story.told();
  await clock.advance(5);
  await ask(initialize, { result: {} });

  expect(before).toMatchObject({ state: 'connecting', startedAt: before.sinceAt });
  expect(story.told()).toMatchObject({
    state: 'ready',
    sinceAt: before.startedAt + 5,
    assistant: { name: 'Claude', version: '9' },
    era: 'legacy',
    lastCall: { method: 'initialize', outcome: 'ok' },
  });
});

test('proxy status: a failed tool, a refusal and a broken connection are distinguished', async () => {
  const { story, ask } = observed();
  const call = { id: 1, method: 'tools/call', params: { name: 'x' } };
  await ask(call, { result: { isError: true, content: [] } });
  const tool = story.told();
  await ask(call, { error: { code: -32602, message: 'no' } });
  const refused = story.told();
  await ask(call, new Error('403'));
  const broken = story.told();
  await ask(call, { result: { content: [] } });

  expect(tool).toMatchObject({ state: 'ready', lastCall: { outcome: 'tool_error' } });
  expect(refused).toMatchObject({ state: 'ready', lastCall: { outcome: 'failed' } });
  expect(broken).toMatchObject({ state: 'trouble', reason: 'Error: 403' });
  expect(story.told()).toMatchObject({ state: 'ready', lastCall: { outcome: 'ok' } });
});

test('proxy status: a call that the assistant cancelled is not an error', async () => {
  const { story, ask } = observed();
  await ask({ id: 1, method: 'tools/list' }, new Error('aborted'), AbortSignal.abort());

  expect(story.told()).toMatchObject({ state: 'connecting' });
});

test('proxy status: an answer from the offline cache does not make it ready', async () => {
  const { story, ask } = observed();
  story.changed({ state: 'offline', sinceAt: 1_700_000_000, reason: 'nobody there' });
  await ask(initialize, { result: {} });
  const away = story.told();
  story.changed({ state: 'online' });

  expect(away).toMatchObject({ state: 'offline', sinceAt: 1_700_000_000, reason: 'nobody there' });
  expect(story.told()).toMatchObject({ state: 'ready' });
});

test('proxy status: a modern assistant is known by the name in its requests', async () => {
  const { story, ask } = observed();
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'Cursor', version: '3' },
  };
  await ask({ id: 1, method: 'tools/list', params: { _meta: meta } }, { result: {} });

  expect(story.told()).toMatchObject({ era: 'modern', assistant: { name: 'Cursor' } });
});

test('proxy status: query and fragment of the URL are not shown', () => {
  expect(shownUrl('https://acme.example/mcp/a?key=mcp_x#y')).toBe('https://acme.example/mcp/a');
  expect(shownUrl('https://acme.example/')).toBe('https://acme.example');
});
