import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PlainLinks } from '#server/gateway/plain-links';
import { UpstreamError } from '#server/gateway/upstream';
import { stillClock } from '#support/still-clock';
import { brokenOff, eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { messageOf } from '#support/mcp-servers';

const place = 'https://mcp.example.com/';
let links: PlainLinks;

beforeEach(() => {
  links = new PlainLinks(stillClock());
});

afterEach(async () => {
  await links.close();
  vi.restoreAllMocks();
});

describe('a handshake fails as the upstream’s fault when', () => {
  const refusing = (answer: ScriptedAnswer) => (request: { text: string }) =>
    messageOf(request).method === 'server/discover' ? { status: 404 } : answer;
  test.each<[string, string, (request: { text: string }) => ScriptedAnswer]>([
    ['it refuses the gateway', 'upstream_failed', () => ({ status: 401 })],
    ['it is broken', 'upstream_failed', () => ({ status: 500 })],
    ['it is busy', 'upstream_busy', () => ({ status: 503 })],
    ['it refuses to initialize', 'upstream_failed', refusing({ status: 400 })],
    [
      'it names no version',
      'upstream_failed',
      refusing({ text: '{"jsonrpc":"2.0","id":1,"result":{}}' }),
    ],
    [
      'it answers an error',
      'upstream_failed',
      refusing({ text: '{"jsonrpc":"2.0","id":1,"error":{}}' }),
    ],
    ['its answer is no JSON', 'upstream_failed', refusing({ text: 'hello' })],
    [
      'its stream ends too soon',
      'upstream_failed',
      refusing({ mediaType: 'text/event-stream', text: eventStream() }),
    ],
    ['its answer breaks off', 'upstream_failed', refusing({ text: brokenOff('{') })],
  ])('%s', async (_, code, script) => {
    await expect(
      links.link({ key: 'key:a srv_1', place, upstream: fakeUpstream(script) }),
    ).rejects.toMatchObject({
      name: 'GatewayRefusal',
      code,
    });
  });

  test('it does not answer in time', async () => {
    const late = AbortSignal.abort(new DOMException('late', 'TimeoutError'));
    vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late);
    const upstream = fakeUpstream(({ signal }) => Promise.reject(signal.reason));

    await expect(links.link({ key: 'key:a srv_1', place, upstream })).rejects.toMatchObject({
      name: 'GatewayRefusal',
      code: 'upstream_failed',
      details: { detail: 'it did not answer in time' },
    });
  });
});

test('a handshake that failed is made again at the next request', async () => {
  let up = false;
  const upstream = fakeUpstream(() => {
    if (!up) throw new UpstreamError('unreachable', 'POST');
    return { text: '{"jsonrpc":"2.0","id":"discover","result":{}}' };
  });

  await expect(links.link({ key: 'key:a srv_1', place, upstream })).rejects.toMatchObject({
    code: 'upstream_unreachable',
  });

  up = true;

  expect(await links.link({ key: 'key:a srv_1', place, upstream })).toEqual({ era: 'modern' });
});
