import { describe, expect, test } from 'vitest';
import { relay, send } from '#server/gateway/relay';
import { UpstreamError } from '#server/gateway/upstream';
import {
  brokenOff,
  eventStream,
  fakeUpstream,
  upstreamAnswer,
  type ScriptedAnswer,
} from '#support/fake-upstream';

const json = { json: true, events: false };
const events = { json: false, events: true };
const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
const request = { method: 'POST', headers: {}, signal: new AbortController().signal } as const;

describe('an upstream that has no answer is refused in words of the gateway', () => {
  test.each([
    ['unreachable', 'upstream_unreachable'],
    ['timeout', 'upstream_failed'],
    ['offline', 'agent_offline'],
  ] as const)('%s: %s', async (fault, code) => {
    const upstream = fakeUpstream(() => Promise.reject(new UpstreamError(fault, 'POST')));

    await expect(send(upstream, request)).rejects.toMatchObject({ name: 'GatewayRefusal', code });
  });
});

test('an error that is no absence of the upstream stays what it is', async () => {
  const aborted = new DOMException('aborted', 'AbortError');
  const upstream = fakeUpstream(() => Promise.reject(aborted));

  await expect(send(upstream, request)).rejects.toBe(aborted);
});

describe('an answer that is none is refused', () => {
  test.each<[string, ScriptedAnswer, object]>([
    ['upstream_busy', { status: 503, retryAfterSeconds: 7 }, { retryAfterSeconds: 7 }],
    ['upstream_busy', { status: 429 }, {}],
    ['upstream_failed', { status: 401 }, { detail: 'it refuses this gateway (HTTP 401)' }],
    ['upstream_failed', { status: 403 }, { detail: 'it refuses this gateway (HTTP 403)' }],
    ['upstream_failed', { status: 500 }, { detail: 'it answered HTTP 500 with application/json' }],
    ['upstream_failed', { status: 307, mediaType: '' }, { detail: 'it answered HTTP 307' }],
    [
      'upstream_failed',
      { mediaType: 'text/html' },
      { detail: 'it answered HTTP 200 with text/html' },
    ],
    ['upstream_failed', { status: 400, mediaType: 'text/html' }, {}],
  ])('%s: %j', async (code, answer, details) => {
    await expect(relay(upstreamAnswer({ ...answer, text: 'private' }), json)).rejects.toMatchObject(
      {
        code,
        details,
      },
    );
  });
});

describe('an answer that breaks off before its response is upstream_failed', () => {
  test.each<[string, ScriptedAnswer, typeof json]>([
    [
      'in an event stream that ends',
      { mediaType: 'text/event-stream', text: eventStream(progress) },
      json,
    ],
    [
      'in an event stream that is cut',
      { mediaType: 'text/event-stream', text: brokenOff('data: {') },
      json,
    ],
    ['in JSON that must become an event', { text: brokenOff('{') }, events],
  ])('%s', async (_, answer, accepts) => {
    await expect(relay(upstreamAnswer(answer), accepts)).rejects.toMatchObject({
      name: 'GatewayRefusal',
      code: 'upstream_failed',
    });
  });
});

test('an answer that we ended ourselves is no failure of the upstream', async () => {
  const aborted = new DOMException('aborted', 'AbortError');
  const ended = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(aborted) }) };
  const answer = upstreamAnswer({ mediaType: 'text/event-stream', text: ended });

  await expect(relay(answer, json)).rejects.toBe(aborted);
});
