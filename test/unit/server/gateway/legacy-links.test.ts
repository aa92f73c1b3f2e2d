import { expect, test } from 'vitest';

import { EraAdapters } from '#server/gateway/era-adapters';
import { UpstreamError } from '#server/gateway/upstream';
import { type SaidMessage, eraCaller } from '#support/era-caller';
import {
  type ScriptedAnswer,
  type SentRequest,
  brokenOff,
  fakeUpstream,
} from '#support/fake-upstream';
import { stillClock } from '#support/still-clock';

/** A legacy server with sessions, which answers some messages differently. */
function upstreamThat(answers: Record<string, (request: SentRequest) => ScriptedAnswer>) {
  return fakeUpstream((request): ScriptedAnswer => {
    if (request.method === 'DELETE') return { status: 204 };
    const { id, method = '' }: SaidMessage = JSON.parse(request.text);
    const said = (rest: object) => JSON.stringify({ jsonrpc: '2.0', id, ...rest });
    const answer = answers[method];
    if (method === 'server/discover')
      return { text: said({ error: { code: -32601, message: '' } }) };
    if (method !== 'initialize') return answer?.(request) ?? { status: 202 };
    const result = { protocolVersion: '2025-06-18', capabilities: {} };
    return { text: said({ result }), ...answer?.(request), sessionId: 'session-1' };
  });
}

const broken = () => ({ text: brokenOff('{"jsonrpc":"2.0",') });
const longHandshake = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  result: { protocolVersion: '2025-06-18', capabilities: {}, instructions: 'x'.repeat(1_048_576) },
});
const unreachable = (): ScriptedAnswer => {
  throw new UpstreamError('unreachable', 'refused');
};

test.each([
  ['modern', 'an answer that breaks off', { initialize: broken }],
  ['modern', 'an answer that cannot be relayed', { initialize: () => ({ status: 503 }) }],
  [
    'modern',
    'an unknown revision',
    { initialize: () => ({ text: '{"jsonrpc":"2.0","id":0,"result":{}}' }) },
  ],
  ['modern', 'a connection lost before its end', { 'notifications/initialized': unreachable }],
  [
    'modern',
    'an answer that is too long to be kept',
    { initialize: () => ({ text: longHandshake }) },
  ],
  ['legacy', 'an answer that breaks off', { initialize: broken }],
] as const)(
  'failed handshake: the session that the upstream opened for a %s caller is ended after %s',
  async (era, _what, answers) => {
    const upstream = upstreamThat(answers);
    const eras = new EraAdapters(stillClock());
    const caller = eraCaller(upstream, { eras });
    const params = { protocolVersion: '2025-06-18', capabilities: {} };

    const answer =
      era === 'modern'
        ? caller.modern('tools/list')
        : caller.legacy({ id: 1, method: 'initialize', params });
    await answer.catch(() => undefined);
    await eras.close();

    const ended = upstream.sent.filter(({ method }) => method === 'DELETE');
    expect(ended.map(({ headers }) => headers['mcp-session-id'])).toEqual(['session-1']);
  },
);

test('107: handshake: an answer over the size limit is refused', async () => {
  const eras = new EraAdapters(stillClock());
  const upstream = upstreamThat({ initialize: () => ({ text: longHandshake }) });
  const answer = eraCaller(upstream, { eras }).modern('tools/list');

  await expect(answer).rejects.toMatchObject({ code: 'upstream_too_large' });
  await eras.close();
});
