import { expect, test } from 'vitest';
import { readMessage } from '#mcp/raw-message';
import { compose } from '#proxy/pipeline/step';
import { statusStep } from '#proxy/status/status-step';
import { proxyStatus } from '#proxy/status/proxy-status';
import { displayUrl } from '#proxy/status/running-proxy';
import { fakeClock } from '#support/fake-clock';

const message = (value: object) => readMessage(Buffer.from(JSON.stringify(value)));
const initialize = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', clientInfo: { name: 'Claude', version: '9' } },
};

/** A status, and `ask`, which sends a request to an upstream and sets what the upstream answers. */
function observed() {
  const clock = fakeClock();
  const identity = { pid: 7, name: 'acme', url: 'https://acme.example/mcp' };
  const status = proxyStatus(identity, clock, () => undefined);
  let answer: object | Error = { result: {} };
  const step = statusStep(status, (error) => ({ state: 'trouble', reason: String(error) }));
  const upstream = compose([step], {
    async send(_request, deliver) {
      if (answer instanceof Error) throw answer;
      await deliver(message({ id: 1, ...answer }));
    },
    listen: () => Promise.resolve(),
    close: () => Promise.resolve(),
  });
  const ask = async (
    value: object,
    answered: object | Error,
    signal = new AbortController().signal,
  ) => {
    answer = answered;
    await upstream.send(message(value), () => Promise.resolve(), signal).catch(() => undefined);
  };
  return { clock, status, ask };
}

test('proxy status: it is connecting until the server has answered', async () => {
  const { status, ask, clock } = observed();
  const before = status.snapshot();
  await clock.advance(5);
  await ask(initialize, { result: {} });

  expect(before).toMatchObject({ state: 'connecting', startedAt: before.sinceAt });
  expect(status.snapshot()).toMatchObject({
    state: 'ready',
    sinceAt: before.startedAt + 5,
    assistant: { name: 'Claude', version: '9' },
    era: 'legacy',
    lastCall: { method: 'initialize', outcome: 'ok' },
  });
});

test('proxy status: a failed tool, a refusal and a broken connection are distinguished', async () => {
  const { status, ask } = observed();
  const call = { id: 1, method: 'tools/call', params: { name: 'x' } };
  await ask(call, { result: { isError: true, content: [] } });
  const tool = status.snapshot();
  await ask(call, { error: { code: -32602, message: 'no' } });
  const refused = status.snapshot();
  await ask(call, new Error('403'));
  const broken = status.snapshot();
  await ask(call, { result: { content: [] } });

  expect(tool).toMatchObject({ state: 'ready', lastCall: { outcome: 'tool_error' } });
  expect(refused).toMatchObject({ state: 'ready', lastCall: { outcome: 'failed' } });
  expect(broken).toMatchObject({ state: 'trouble', reason: 'Error: 403' });
  expect(status.snapshot()).toMatchObject({ state: 'ready', lastCall: { outcome: 'ok' } });
});

test('proxy status: a call that the assistant cancelled is not an error', async () => {
  const { status, ask } = observed();
  await ask({ id: 1, method: 'tools/list' }, new Error('aborted'), AbortSignal.abort());

  expect(status.snapshot()).toMatchObject({ state: 'connecting' });
});

test('proxy status: an answer from the offline cache does not make it ready', async () => {
  const { status, ask } = observed();
  status.changed({ state: 'offline', sinceAt: 1_700_000_000, reason: 'nobody there' });
  await ask(initialize, { result: {} });
  const away = status.snapshot();
  status.changed({ state: 'online' });

  expect(away).toMatchObject({ state: 'offline', sinceAt: 1_700_000_000, reason: 'nobody there' });
  expect(status.snapshot()).toMatchObject({ state: 'ready' });
});

test('proxy status: a modern assistant is known by the name in its requests', async () => {
  const { status, ask } = observed();
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'Cursor', version: '3' },
  };
  await ask({ id: 1, method: 'tools/list', params: { _meta: meta } }, { result: {} });

  expect(status.snapshot()).toMatchObject({ era: 'modern', assistant: { name: 'Cursor' } });
});

test.each([
  [{ name: 'claude-ai', version: '0.1' }, 'Claude Desktop'],
  [{ name: 'cursor-vscode' }, 'Cursor'],
  [{ name: 'new-assistant' }, 'new-assistant'],
  [{ name: 'new-assistant', title: 'New Assistant' }, 'New Assistant'],
  [{}, undefined],
])('proxy status: the assistant %o is called %s', async (clientInfo, title) => {
  const { status, ask } = observed();
  const before = status.assistant();
  await ask({ id: 1, method: 'initialize', params: { clientInfo } }, { result: {} });

  expect(before).toBeUndefined();
  expect(status.assistant()).toBe(title);
});

test('proxy status: query and fragment of the URL are not shown', () => {
  expect(displayUrl('https://acme.example/mcp/a?key=mcp_x#y')).toBe('https://acme.example/mcp/a');
  expect(displayUrl('https://acme.example/')).toBe('https://acme.example');
});
