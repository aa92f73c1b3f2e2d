import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { NodeCall } from '#server/gateway/other-nodes';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import { NodeLinks } from '#server/nodes/node-links';
import { answerNode, callNode } from '#server/nodes/remote-calls';
import { masterKey } from '#server/secrets/master-key';
import { MemoryBus } from '#support/memory-bus';

const instances = { one: 'oneoneoneoneone1', two: 'twotwotwotwotwo2' };
const claims = {
  id: 'jti-1',
  subject: 'person_a',
  clientId: 'client_a',
  audience: 'https://latchkey.example.com/mcp/acme/sales',
  scopes: ['mcp:tools:read'],
  issuedAt: 1,
  expiresAt: 2,
} as const;

let answer: (request: GatewayRequest) => Promise<GatewayAnswer>;
let openings: unknown[];
let isStopping: boolean;
let bus: MemoryBus;
let one: NodeLinks;
let two: NodeLinks;

beforeEach(() => {
  openings = [];
  isStopping = false;
  bus = new MemoryBus();
  const common = {
    masterKey: masterKey(randomBytes(32)),
    nowMs: () => 0,
    wallMs: () => 0,
    ended: () => {},
  };
  one = new NodeLinks({
    ...common,
    bus: bus.connect(),
    instance: instances.one,
    accept: (_, stream) => stream.reset('unexpected'),
  });
  two = new NodeLinks({
    ...common,
    bus: bus.connect(),
    instance: instances.two,
    accept(opening, stream) {
      openings.push(opening);
      if (isStopping) return stream.reset('stopping');
      const gateway = { handle: (request: GatewayRequest) => answer(request) };
      void answerNode(opening, stream, { gateway, maxBodyBytes: 1000 });
    },
  });
});
afterEach(async () => {
  await one.close();
  await two.close();
});

function send(but: Partial<NodeCall> = {}, instance = instances.two): Promise<GatewayAnswer> {
  return callNode(one, instance, {
    request: {
      id: 'request-1',
      organization: 'acme',
      server: 'sales',
      method: 'POST',
      address: '192.0.2.1',
      headers: {
        authorization: 'Bearer s3cret',
        'x-api-key': 's3cret',
        cookie: 's3cret',
        'content-type': 'application/json',
        'mcp-session-id': 'session-1',
      },
    },
    proved: { type: 'token', claims },
    body: Buffer.from('{}'),
    signal: new AbortController().signal,
    ...but,
  });
}

test('call of another node: the proved identity is sent, and no credential', async () => {
  let asked: GatewayRequest | undefined;
  answer = async (request) => {
    asked = request;
    return { status: 200, headers: { 'X-Test': 'yes' }, body: await request.readBody() };
  };

  const answered = await send();

  expect(JSON.stringify(openings)).not.toContain('s3cret');
  expect(asked).toMatchObject({
    id: 'request-1',
    organization: 'acme',
    server: 'sales',
    address: '192.0.2.1',
    headers: { 'content-type': 'application/json', 'mcp-session-id': 'session-1' },
    isPassedOn: true,
    rawHeaders: [],
    proved: { type: 'token', claims },
  });
  expect(answered).toEqual({ status: 200, headers: { 'X-Test': 'yes' }, body: Buffer.from('{}') });
});

test('call of another node: what a refusal there means arrives with its answer', async () => {
  const refused = { status: 503, headers: {}, errorCode: -32000, refused: 'not_sent' } as const;
  answer = async () => ({ ...refused, body: 'later' });

  expect(await send()).toEqual({ ...refused, body: Buffer.from('later') });
});

test('call of another node: a body over the limit is refused', async () => {
  answer = async ({ readBody }) => {
    const read = await Promise.resolve(readBody()).catch((error: unknown) => error);
    return { status: 413, headers: {}, body: String(Object(read).code) };
  };

  const answered = await send({ body: Buffer.alloc(1001) });

  expect(answered).toMatchObject({ status: 413, body: Buffer.from('too_large') });
});

test('call of another node: a stream passes as it arrives, and its caller’s disconnection is reported', async () => {
  const going = new AbortController();
  let gone: GatewayRequest['gone'] | undefined;
  answer = async (request) => {
    gone = request.gone;
    const body = async function* () {
      yield Buffer.from('first');
      await new Promise(() => {});
    };
    return { status: 200, headers: {}, body: body() };
  };

  const { body } = await send({ signal: going.signal });
  if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('not a stream');
  const first = await body[Symbol.asyncIterator]().next();
  going.abort();
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();

  expect(first.value).toEqual(Buffer.from('first'));
  expect(gone?.aborted).toBe(true);
});

test('call of another node: a stream that has ended by the time its head arrives is passed on whole', async () => {
  answer = async () => {
    const body = async function* () {
      yield Buffer.from('first, ');
      yield Buffer.from('last');
    };
    return { status: 200, headers: {}, body: body() };
  };

  const { body } = await send();

  expect(body).toEqual(Buffer.from('first, last'));
});

test('call of another node: without that node, its session is not found', async () => {
  await expect(send({}, 'nobodynobodynob1')).rejects.toMatchObject({ code: 'unknown_session' });
});

test('call of another node: one that is shutting down has begun nothing, and its session is not found', async () => {
  isStopping = true;

  await expect(send()).rejects.toMatchObject({ code: 'unknown_session' });
});

test('call of another node: a node that is lost during a call leaves its outcome unknown', async () => {
  const begun = Promise.withResolvers<void>();
  answer = () => {
    begun.resolve();
    return new Promise(() => {});
  };
  const calling = send();
  await begun.promise;

  await two.close();

  await expect(calling).rejects.toMatchObject({ code: 'node_lost' });
  expect(openings).toHaveLength(1);
});

test('call of another node: one that stops before it has read a call never began it, and the session is not found', async () => {
  const begun = Promise.withResolvers<void>();
  answer = () => {
    begun.resolve();
    return new Promise(() => {});
  };
  const read = send();
  await begun.promise;
  bus.onMessage = (subject, data) => (subject.endsWith('.there') ? [] : [data]);
  const unread = send();
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();

  await two.close();

  await expect(unread).rejects.toMatchObject({ code: 'unknown_session' });
  await expect(read).rejects.toMatchObject({ code: 'node_lost' });
  expect(openings).toHaveLength(1);
});
