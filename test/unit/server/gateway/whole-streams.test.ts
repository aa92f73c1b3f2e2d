import { expect, test } from 'vitest';

import { sealed, principalSeal } from '#server/gateway/seal';
import { allowedNotifications, ownResponse } from '#server/gateway/filters';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import type { ReplyOptions } from '#server/gateway/reply';
import { FollowedStream, LostCaller, SessionStreams } from '#server/gateway/session-streams';
import { fakeMac } from '#support/fake-mac';
import { eventStream } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';
import { stillClock } from '#support/still-clock';

const result = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}';
const failing = '{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}';
const task = '{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t-1","status":"working"}}}';
const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}';
const changed = '{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}';
const question = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}';
const another = '{"jsonrpc":"2.0","id":2,"result":{}}';

const bodies: Readonly<Record<string, string>> = {
  'one response': eventStream(result),
  nothing: '',
  'comments, ids and names': `: hi\n\nid: 7\nevent: message\nretry: 9\ndata: ${result}\n\n`,
  'several messages': eventStream(progress, question, result),
  'a notification that the caller may not get': eventStream(changed, result),
  'an error of a tool': eventStream(failing),
  'the id of a task': eventStream(task),
  'the response to another request': eventStream(progress, another, result),
  'what is no message': `data: {"jsonrpc"\n\n${eventStream(result)}`,
  'an event that has not ended': `${eventStream(progress)}data: ${result}`,
  'more than is allowed': eventStream(progress, result.replace('[]', `["${'x'.repeat(2000)}"]`)),
  'line ends of all kinds': `data: ${progress}\r\n\r\ndata: ${result}\r\r`,
};

/** A stream without a session, in a session, or in a session as the continuation of a stream whose events the caller missed. */
type Way = 'alone' | 'in a session' | 'resumed';
const ways: readonly Way[] = ['alone', 'in a session', 'resumed'];

async function* missed(): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`id: a9-1\n${eventStream(progress)}`);
}

/** The answer that the caller gets for an upstream's events, and the outcome of the call and of its stream. */
async function passed(text: string | Uint8Array, way: Way) {
  const inSession = way !== 'alone';
  const outcomes: string[] = [];
  const refusals: string[] = [];
  const streams = new SessionStreams(stillClock(), { maxBytes: 1_000_000, bytes: 0 });
  const stream = streams.open('answer', new LostCaller(() => undefined), '1');
  const session = { pending: new Set<string>() };
  const filters = [
    allowedNotifications(['mcp:tools:read']),
    ownResponse('1'),
    sealed(principalSeal('owner', fakeMac), { callId: 'a'.repeat(24), isOfTask: () => undefined }),
  ];
  const options: Partial<ReplyOptions> = {
    filters: filters.filter((filter) => filter !== undefined),
    maxBytes: 1500,
    ownId: { id: '1', isRequest: true },
    finish: (outcome) => outcomes.push(outcome),
    report: (error) => {
      if (!(error instanceof GatewayRefusal)) return undefined;
      refusals.push(error.code);
      return `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"${error.code}"}}`;
    },
    ...(inSession && { stream: () => new FollowedStream(stream, session, true) }),
    ...(way === 'resumed' && { missed: missed() }),
  };
  const answer = await replied({ mediaType: 'text/event-stream', text }, options);
  const { status, headers } = answer;
  const read = await bodyText(answer);
  const { isOpen, isAnswered, lastNumber } = stream;
  const kept = {
    isOpen: inSession && isOpen,
    isAnswered,
    lastNumber,
    pending: [...session.pending],
  };
  return { status, headers, read, outcome: outcomes[0], refusals, kept };
}

test('an event stream that has ended: a bug of ours is not taken for a fault of the MCP server', async () => {
  const bug = new TypeError('a bug');
  const filter = () => {
    throw bug;
  };
  const answer = { mediaType: 'text/event-stream', text: Buffer.from(eventStream(result)) };

  await expect(replied(answer, { filters: [filter] })).rejects.toBe(bug);
});

test.each(
  Object.entries(bodies).flatMap(([name, body]) => ways.map((way) => [name, way, body] as const)),
)('an event stream that has ended is passed like one that comes: %s, %s', async (_, way, body) => {
  const whole = await passed(Buffer.from(body), way);
  const coming = await passed(body, way);

  expect(whole).toEqual(coming);
  expect(whole.read.includes('id: a9-1')).toBe(way === 'resumed');
});
