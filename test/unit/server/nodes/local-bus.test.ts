import { setImmediate as nextTurn } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import { beforeEach, expect, test } from 'vitest';
import {
  type BrokerConnection,
  type FromBroker,
  LocalBroker,
  LocalBus,
  type ToBroker,
} from '#server/nodes/local-bus';
import type { BusRequest } from '#server/nodes/node-bus';

let broker: LocalBroker;
beforeEach(() => {
  broker = new LocalBroker();
});

/** A process with its connection, on which messages arrive later, in order and copied, as between real processes. */
function connected(): { readonly bus: LocalBus; readonly end: () => void } {
  const connection: BrokerConnection = broker.connect((message) => {
    const sent = serialize(message);
    setImmediate(() => {
      const arrived: FromBroker = deserialize(sent);
      bus.receive(arrived);
    });
  });
  const bus = new LocalBus((message) => {
    const sent = serialize(message);
    setImmediate(() => {
      const arrived: ToBroker = deserialize(sent);
      connection.receive(arrived);
    });
  });
  return { bus, end: () => connection.close() };
}

const bytes = (text: string) => Buffer.from(text);
const textOf = (data: Uint8Array) => Buffer.from(data).toString();
async function settled(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) await nextTurn();
}

/** The texts that arrive at a bus on a subject. */
function heard({ bus }: { readonly bus: LocalBus }, subject: string) {
  const texts: string[] = [];
  const stop = bus.subscribe(subject, ({ data }: BusRequest) => void texts.push(textOf(data)));
  return { texts, stop };
}

test('local bus: a message reaches every process that subscribed to its subject, in order', async () => {
  const [one, two, three] = [connected(), connected(), connected()];
  const own = heard(one, 'a');
  const theirs = heard(two, 'a');
  const other = heard(three, 'b');
  await settled();

  one.bus.publish('a', bytes('first'));
  one.bus.publish('a', bytes('second'));
  await settled();

  expect([own.texts, theirs.texts, other.texts]).toEqual([
    ['first', 'second'],
    ['first', 'second'],
    [],
  ]);
});

test('local bus: one of two subscribers in a process can unsubscribe', async () => {
  const [one, two] = [connected(), connected()];
  const first = heard(two, 'a');
  const second = heard(two, 'a');
  first.stop();
  await settled();

  one.bus.publish('a', bytes('x'));
  await settled();
  second.stop();
  await settled();
  one.bus.publish('a', bytes('y'));
  await settled();

  expect([first.texts, second.texts]).toEqual([[], ['x']]);
});

test('local bus: concurrent requests each get their own answer', async () => {
  const [one, two, three] = [connected(), connected(), connected()];
  three.bus.subscribe('echo', ({ data, respond }) => respond(bytes(`${textOf(data)}!`)));
  await settled();

  const answers = await Promise.all([
    one.bus.request('echo', bytes('a')),
    two.bus.request('echo', bytes('b')),
    one.bus.request('echo', bytes('c')),
  ]);

  expect(answers.map(textOf)).toEqual(['a!', 'b!', 'c!']);
});

test('local bus: of several answers to a request the first one counts', async () => {
  const [one, two] = [connected(), connected()];
  two.bus.subscribe('twice', ({ respond }) => {
    respond(bytes('first'));
    respond(bytes('second'));
  });
  await settled();

  expect(textOf(await one.bus.request('twice', bytes('')))).toBe('first');
});

test('local bus: a request on a subject without subscribers fails immediately', async () => {
  const { bus } = connected();

  await expect(bus.request('a', bytes(''))).rejects.toMatchObject({ code: 'gone' });
});

test('local bus: the subscriptions of a process that ended are removed', async () => {
  const [one, two] = [connected(), connected()];
  two.bus.subscribe('a', ({ respond }) => respond(bytes('here')));
  await settled();
  expect(textOf(await one.bus.request('a', bytes('')))).toBe('here');

  two.end();

  await expect(one.bus.request('a', bytes(''))).rejects.toMatchObject({ code: 'gone' });
});

test('local bus: a closed one sends nothing', async () => {
  const [one, two] = [connected(), connected()];
  const { texts } = heard(two, 'a');
  await settled();
  await one.bus.close();

  expect(() => one.bus.publish('a', bytes('x'))).toThrow('this process is stopping');
  await expect(one.bus.request('a', bytes(''))).rejects.toMatchObject({ code: 'unreachable' });
  await settled();
  expect(texts).toEqual([]);
});
