import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BufferedBytes, LinkStream, NodeLinkError } from '#server/nodes/link-stream';
import { LocalBroker, LocalBus } from '#server/nodes/local-bus';
import type { NodeBus } from '#server/nodes/node-bus';
import { NodeLinks } from '#server/nodes/node-links';
import { masterKey } from '#server/secrets/master-key';
import { MemoryBus } from '#support/memory-bus';

const instances = { one: 'oneoneoneoneone1', two: 'twotwotwotwotwo2' };
const isLink = (subject: string) => subject.includes('.link.');

let bus: MemoryBus;
let nowMs: number;
let wallMs: number;
let key: ReturnType<typeof masterKey>;
let ended: string[];
let accepted: { opening: unknown; stream: LinkStream }[];
let one: NodeLinks;
let two: NodeLinks;

beforeEach(() => {
  bus = new MemoryBus();
  nowMs = 0;
  wallMs = 1_700_000_000_000;
  ended = [];
  accepted = [];
  key = masterKey(randomBytes(32));
  one = node(instances.one, key);
  two = node(instances.two, key);
});
afterEach(async () => {
  await one.close();
  await two.close();
});

function node(
  instance: string,
  masterKeyOfNode: ReturnType<typeof masterKey>,
  own: NodeBus = bus.connect(),
): NodeLinks {
  return new NodeLinks({
    bus: own,
    masterKey: masterKeyOfNode,
    instance,
    nowMs: () => nowMs,
    wallMs: () => wallMs,
    ended: (other, reason) => void ended.push(`${other}: ${reason}`),
    accept: (opening, stream) => void accepted.push({ opening, stream }),
  });
}

/** Lets both sides send what they have gathered, there and back. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();
}

/** An opening from a third node to the second one, held back from the bus. */
async function undeliveredOpening() {
  const held: { subject: string; data: Uint8Array }[] = [];
  const third = node('threethreethree3', key, {
    ...bus.connect(),
    request(subject: string, data: Uint8Array) {
      held.push({ subject, data });
      return Promise.reject(new NodeLinkError('unreachable', 'no answer'));
    },
  });
  await third.open(instances.two, {}).catch(() => undefined);
  return { held, third };
}

/** A call from the first node to the second one: the stream of each node, and the opening. */
async function openCall() {
  const own = await one.open(instances.two, { hello: 'two' });
  await settled();
  const call = accepted.at(-1);
  if (!call) throw new Error('it was not accepted');
  return { own, theirs: call.stream, opening: call.opening };
}

async function textOf(stream: LinkStream): Promise<string> {
  let text = '';
  for await (const piece of stream.body()) text += Buffer.from(piece).toString();
  return text;
}

test('link: when the other process ends, calls in progress fail immediately, at either end of the link', async () => {
  const broker = new LocalBroker();
  const processOf = (instance: string) => {
    const connection = broker.connect((message) => setImmediate(() => local.receive(message)));
    const local = new LocalBus((message) => connection.receive(message));
    const links = node(instance, key, local);
    return { links, died: () => connection.close() };
  };
  const [survivor, opener, accepter] = [
    processOf(instances.one),
    processOf(instances.two),
    processOf('threethreethree3'),
  ];
  const opened = await survivor.links.open('threethreethree3', {});
  await opener.links.open(instances.one, {});
  await settled();
  const head = opened.head.catch((error: unknown) => error);

  accepter.died();
  opener.died();
  await settled();

  expect(await head).toMatchObject({ code: 'broken' });
  expect(ended).toEqual([
    'threethreethree3: the other process has ended',
    `${instances.two}: the other process has ended`,
  ]);
  expect(survivor.links.streams).toBe(0);
  for (const { links } of [survivor, opener, accepter]) await links.close();
});

test('link: a call and its answer pass in both directions', async () => {
  const { own, theirs, opening } = await openCall();

  await own.write(Buffer.from('question'));
  own.end();
  const question = await textOf(theirs);
  theirs.sendHead({ status: 200 });
  await theirs.write(Buffer.from('answer'));
  theirs.end();

  expect(opening).toEqual({ hello: 'two' });
  expect(question).toBe('question');
  expect(await own.head).toEqual({ status: 200 });
  expect(await textOf(own)).toBe('answer');
  expect([one.streams, two.streams]).toEqual([0, 0]);
});

test('link: the body of a call that arrives in one message is there when the call is accepted', async () => {
  const own = await one.open(instances.two, {});
  own.endWith(Buffer.from('question'));
  await settled();

  const question = accepted.at(-1)?.stream.takeWhole()?.toString();

  expect(question).toBe('question');
});

test('link: a body that has arrived in part is not taken as whole', async () => {
  const { own, theirs } = await openCall();
  await own.write(Buffer.from('quest'));
  await settled();
  const early = theirs.takeWhole();
  await own.write(Buffer.from('ion'));
  own.end();
  await settled();

  const question = theirs.takeWhole()?.toString();

  expect([early, question]).toEqual([undefined, 'question']);
});

test('link: a call that is cancelled before it was sent is not begun at the other node', async () => {
  await openCall();
  const cancelled = await one.open(instances.two, {});
  cancelled.endWith(Buffer.from('question'));
  cancelled.cancel();
  await settled();

  expect(accepted).toHaveLength(1);
  expect([one.streams, two.streams]).toEqual([1, 1]);
});

test('link: a body that the other node does not take now is not sent in part', async () => {
  const { own, theirs } = await openCall();
  const isSent = own.endWith(Buffer.alloc(65_537));
  own.end();
  await settled();

  expect(isSent).toBe(false);
  expect(theirs.takeWhole()).toEqual(Buffer.alloc(0));
});

test('link: nothing of a call can be read on its way', async () => {
  const { own } = await openCall();
  await own.write(Buffer.from('a secret of acme'));
  await settled();

  const passed = Buffer.concat(bus.published.map(({ data }) => data)).toString('latin1');

  expect(passed).not.toContain('a secret');
  expect(passed).not.toContain('hello');
});

/** Both nodes go on for three seconds, with heartbeats. */
async function threeSeconds(): Promise<void> {
  for (let passed = 0; passed < 3000; passed += 250) {
    nowMs += 250;
    for (const links of [one, two]) links.checkTimeouts();
    await settled();
  }
}

const changed = (data: Uint8Array, at: number) => {
  const copy = Buffer.from(data);
  const byte = at < 0 ? copy.length + at : at;
  copy.writeUInt8(copy.readUInt8(byte) ^ 1, byte);
  return copy;
};

test.each([
  ['is lost', () => []],
  ['was changed', (data: Uint8Array) => [changed(data, -20)]],
  ['has another number', (data: Uint8Array) => [changed(data, 7)]],
  ['is cut off', (data: Uint8Array) => [data.subarray(0, 10)]],
])('link: a message that %s ends it, and the call is not executed again', async (_, fault) => {
  const { own } = await openCall();
  const count = accepted.length;

  bus.onMessage = (subject, data) => (isLink(subject) ? fault(data) : [data]);
  await own.write(Buffer.from('lost'));
  await settled();
  bus.onMessage = (_subject, data) => [data];
  own.end();
  await threeSeconds();

  await expect(own.head).rejects.toMatchObject({ code: 'broken' });
  expect(ended).toHaveLength(2);
  expect(accepted).toHaveLength(count);
});

test.each([
  ['twice', (data: Uint8Array) => [data, data]],
  ['after one that was changed', (data: Uint8Array) => [changed(data, -20), data]],
  ['after one with a later number', (data: Uint8Array) => [changed(data, 6), data]],
  ['after the beginning of it', (data: Uint8Array) => [data.subarray(0, 10), data]],
])(
  '114: replayed frames: a message that arrives %s is read once, and the call continues',
  async (_, arriving) => {
    const { own, theirs } = await openCall();
    bus.onMessage = (subject, data) => (isLink(subject) ? arriving(data) : [data]);

    await own.write(Buffer.from('question'));
    own.end();
    const question = await textOf(theirs);
    theirs.sendHead({ status: 200 });
    theirs.end();
    await threeSeconds();

    expect(question).toBe('question');
    expect(await own.head).toEqual({ status: 200 });
    expect(ended).toEqual([]);
  },
);

test('114: replayed frames: messages of a link that ended change nothing in the next one', async () => {
  await openCall();
  const recorded = [...bus.published];
  bus.onMessage = () => [];
  await threeSeconds();
  bus.onMessage = (_subject, data) => [data];
  const { own, theirs } = await openCall();
  const count = accepted.length;
  const subjects = new Set(bus.published.map(({ subject }) => subject).filter(isLink));

  for (const { data } of recorded) for (const subject of subjects) bus.publish(subject, data);
  own.end();
  theirs.sendHead({ status: 200 });
  theirs.end();
  await threeSeconds();

  expect(await own.head).toEqual({ status: 200 });
  expect(accepted).toHaveLength(count);
  expect(ended).toHaveLength(2);
});

test('114: replayed frames: recorded openings open no link, however often and late they are sent', async () => {
  const { own } = await openCall();
  own.reset('cancelled');
  await settled();
  const openings = bus.published.filter(({ subject }) => !isLink(subject));
  const subscriptions = bus.subscriptions;

  for (const _ of Array.from({ length: 1200 })) {
    for (const { subject, data } of openings) bus.publish(subject, data);
  }
  const meanwhile = bus.subscriptions;
  await threeSeconds();
  for (const afterMs of [5000, 30_000, 3_600_000]) {
    wallMs += afterMs;
    for (const { subject, data } of openings) bus.publish(subject, data);
  }
  await settled();

  expect(openings.length).toBeGreaterThan(0);
  expect([meanwhile, bus.subscriptions]).toEqual([subscriptions, subscriptions]);
  expect(ended).toEqual([]);
  expect(accepted).toHaveLength(1);
});

test('114: replayed frames: a recorded call is not executed again, even where its opening is not remembered', async () => {
  const { own } = await openCall();
  await own.write(Buffer.from('once'));
  own.end();
  await settled();
  const recorded = [...bus.published];
  const count = accepted.length;
  await two.close();
  two = node(instances.two, key);
  const subscriptions = bus.subscriptions;

  for (const { subject, data } of recorded) bus.publish(subject, data);
  await settled();

  // The second node accepts the opening, but contributes a new part to the key, so that the link has another key.
  expect(bus.subscriptions).toBe(subscriptions + 1);
  expect(accepted).toHaveLength(count);
});

test('107: node links: an opening of more than 2 KiB is not read', async () => {
  const { held, third } = await undeliveredOpening();
  const subscriptions = bus.subscriptions;

  for (const { subject, data } of held) {
    bus.publish(subject, Buffer.concat([data, Buffer.alloc(2048, ' ')]));
  }
  await settled();
  const afterLong = bus.subscriptions;
  for (const { subject, data } of held) bus.publish(subject, data);
  await settled();

  expect(afterLong).toBe(subscriptions);
  expect(bus.subscriptions).toBe(subscriptions + 1);
  await third.close();
});

test('114: replayed frames: an opening that was delayed opens no link', async () => {
  const { held, third } = await undeliveredOpening();
  const subscriptions = bus.subscriptions;

  wallMs += 60_000;
  for (const { subject, data } of held) bus.publish(subject, data);
  await settled();

  expect(held).toHaveLength(1);
  expect(bus.subscriptions).toBe(subscriptions);
  await third.close();
});

test('link: a node with another master key gets none', async () => {
  const stranger = node('strangerstranger', masterKey(randomBytes(32)));

  const opening = stranger.open(instances.two, {});

  await expect(opening).rejects.toMatchObject({ code: 'gone' });
  await stranger.close();
});

test('link: silence for 2.5 seconds ends it', async () => {
  const { own } = await openCall();
  bus.onMessage = () => [];

  for (let passed = 0; passed <= 2500; passed += 250) {
    nowMs += 250;
    one.checkTimeouts();
  }

  await expect(own.head).rejects.toMatchObject({ code: 'broken' });
  expect(ended).toEqual([`${instances.two}: the other node fell silent`]);
});

test('link: heartbeats keep one without calls alive', async () => {
  await openCall();

  for (let passed = 0; passed <= 10_000; passed += 250) {
    nowMs += 250;
    one.checkTimeouts();
    two.checkTimeouts();
  }

  expect(ended).toEqual([]);
});

test('link: a process that was suspended does not assume that the other one is silent', async () => {
  await openCall();

  nowMs += 60_000;
  one.checkTimeouts();

  expect(ended).toEqual([]);
});

test('link: a node that left is removed, and calls to it fail', async () => {
  const { own } = await openCall();

  await two.close();

  await expect(own.head).rejects.toMatchObject({ code: 'broken' });
  await expect(one.open(instances.two, {})).rejects.toMatchObject({ code: 'gone' });
});

test('link: a node that stops right after it accepted one is gone', async () => {
  const opening = one.open(instances.two, {});

  await two.close();

  await expect(opening).rejects.toMatchObject({ code: 'gone' });
  expect(accepted).toEqual([]);
});

test('link: of the calls in progress when it ends, those that were not sent yet are told apart', async () => {
  const connection = bus.connect();
  const third = node('threethreethree3', key, connection);
  const sent = await third.open(instances.two, { call: 'sent' });
  await settled();
  const unsent = await third.open(instances.two, { call: 'unsent' });

  connection.onLost();
  await settled();

  await expect(sent.head).rejects.toMatchObject({ code: 'broken' });
  await expect(unsent.head).rejects.toMatchObject({ code: 'unreachable' });
  expect(accepted.map(({ opening }) => opening)).toEqual([{ call: 'sent' }]);
  await third.close();
});

test('link: a call whose message cannot be published was not sent', async () => {
  const connection = bus.connect();
  const third = node('threethreethree3', key, connection);
  await third.open(instances.two, { call: 'sent' });
  await settled();
  connection.publish = () => {
    throw new Error('the connection closed');
  };
  const unsent = await third.open(instances.two, { call: 'unsent' });
  await settled();

  await expect(unsent.head).rejects.toMatchObject({ code: 'unreachable' });
  await third.close();
});

test('link: without NATS no call is sent', async () => {
  const connection = bus.connect();
  connection.isConnected = false;
  const cutOff = new NodeLinks({
    bus: connection,
    masterKey: masterKey(randomBytes(32)),
    instance: 'cutoffcutoffcut1',
    nowMs: () => nowMs,
    wallMs: () => wallMs,
    ended: () => {},
    accept: () => {},
  });

  const opening = cutOff.open(instances.two, {});

  await expect(opening).rejects.toMatchObject({ code: 'unreachable' });
  await cutOff.close();
});

test('stream: 64 KiB are sent ahead of the reader, and the rest as it reads', async () => {
  const { own, theirs } = await openCall();
  const body = Buffer.alloc(300 * 1024, 'x');
  let hasSentAll = false;
  void own.write(body).then(() => {
    hasSentAll = true;
    own.end();
  });
  await settled();
  expect([theirs.bufferedBytes, hasSentAll]).toEqual([64 * 1024, false]);

  const text = await textOf(theirs);

  expect(text).toHaveLength(body.length);
  expect(hasSentAll).toBe(true);
});

test('stream: a caller that disconnects ends the call at the other node', async () => {
  const { own, theirs } = await openCall();

  own.reset('cancelled');
  await settled();

  expect(theirs.gone.aborted).toBe(true);
  expect([one.streams, two.streams]).toEqual([0, 0]);
});

test('stream: a question whose answer is not read is not stored', async () => {
  const { own, theirs } = await openCall();
  await own.write(Buffer.from('a question'));
  own.end();
  await settled();
  expect(theirs.bufferedBytes).toBe(10);

  theirs.sendHead({});
  theirs.end();

  expect(theirs.bufferedBytes).toBe(0);
});

test('stream: an answer without a reader is not stored', async () => {
  const { own, theirs } = await openCall();
  own.end();
  theirs.sendHead({});
  await theirs.write(Buffer.from('an answer'));
  theirs.end();
  await settled();
  expect(own.bufferedBytes).toBe(9);

  own.cancel();

  expect(own.bufferedBytes).toBe(0);
  await expect(textOf(own)).rejects.toMatchObject({ code: 'broken' });
});

test('stream: a reader that stops early ends it', async () => {
  const { own, theirs } = await openCall();
  theirs.sendHead({});
  void theirs.write(Buffer.alloc(200 * 1024));
  await own.head;
  await settled();

  for await (const _piece of own.body()) break;
  await settled();

  expect(theirs.gone.aborted).toBe(true);
});

test('stream: beyond the memory of a node, the slowest reader loses its stream', () => {
  const sent: string[] = [];
  const buffered = new BufferedBytes(100_000);
  const stream = (id: number) =>
    new LinkStream({
      id,
      isOwn: false,
      send: (frame) => void sent.push(`${id} ${frame.readUInt8(0)}`),
      buffered,
      onClosed: () => {},
    });
  const [slow, quick] = [stream(1), stream(2)];
  slow.onData(Buffer.alloc(60_000));

  quick.onData(Buffer.alloc(50_000));

  expect([slow.gone.aborted, quick.gone.aborted]).toEqual([true, false]);
  expect([slow.bufferedBytes, quick.bufferedBytes]).toEqual([0, 50_000]);
  expect(sent).toEqual(['1 20']);
});

test('stream: more than the window is refused', () => {
  const stream = new LinkStream({
    id: 1,
    isOwn: false,
    send: () => {},
    buffered: new BufferedBytes(),
    onClosed: () => {},
  });

  expect(stream.onData(Buffer.alloc(64 * 1024))).toBe(true);
  expect(stream.onData(Buffer.alloc(1))).toBe(false);
});
