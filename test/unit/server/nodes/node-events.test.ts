import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { NodeEvents, type NodeEvent } from '#server/nodes/node-events';
import { masterKey } from '#server/secrets/master-key';
import { MemoryBus } from '#support/memory-bus';

const instances = ['oneoneoneoneone1', 'twotwotwotwotwo2', 'threethreethree3'];
const cancelled: NodeEvent = { type: 'cancelled', owner: 'key:a srv_1', request: '7' };

let bus: MemoryBus;
let wallMs: number;
let heard: { at: string | undefined; from: string; event: NodeEvent }[];
let nodes: NodeEvents[];
const key = masterKey(randomBytes(32));

beforeEach(() => {
  bus = new MemoryBus();
  wallMs = 1_000_000;
  heard = [];
  nodes = instances.map((instance) => node(instance));
});
afterEach(() => {
  for (const one of nodes) one.close();
});

function node(instance: string, { masterKey: own = key, isConnected = true } = {}): NodeEvents {
  return new NodeEvents({
    bus: { ...bus.connect(), isConnected },
    masterKey: own,
    instance,
    wallMs: () => wallMs,
    onEvent: (event, from) => void heard.push({ at: instance, from, event }),
  });
}

/** The message that was published at this position. */
function sent(at = 0) {
  const message = bus.published[at];
  if (!message) throw new Error('nothing was sent');
  return message;
}

test('all other nodes receive an event, and the sender does not', () => {
  nodes[0]?.tell(cancelled);

  expect(heard).toEqual([
    { at: instances[1], from: instances[0], event: cancelled },
    { at: instances[2], from: instances[0], event: cancelled },
  ]);
});

test('114: an event that was sent before a node subscribed is not obeyed there', () => {
  nodes[0]?.tell(cancelled);
  const recorded = sent();
  wallMs += 1;
  const late = node('latelatelatelate');
  nodes.push(late);
  bus.connect().publish(recorded.subject, recorded.data);

  expect(heard.map(({ at }) => at)).not.toContain('latelatelatelate');
});

test('108: an event that is longer than nodes send is dropped before it is read', () => {
  const event: NodeEvent = { ...cancelled, request: 'x'.repeat(600 * 1024) };
  nodes[0]?.tell(event);

  expect(sent().data.length).toBeGreaterThan(512 * 1024);
  expect(heard).toEqual([]);
});

test('NATS sees neither caller nor event', () => {
  nodes[0]?.tell(cancelled);

  expect(bus.published).toHaveLength(1);
  const { data } = sent();
  const text = Buffer.from(data).toString('latin1');
  for (const word of ['cancelled', 'key:a', 'srv_1', instances[0] ?? '']) {
    expect(text).not.toContain(word);
    expect(Buffer.from(text, 'base64url').toString('latin1')).not.toContain(word);
  }
});

test('an event that is repeated is received once', () => {
  bus.onMessage = (_, data) => [data, data];
  nodes[0]?.tell(cancelled);
  expect(heard).toHaveLength(2);

  const { subject, data } = sent();
  for (const laterMs of [100, 5000, 9000, 60_000]) {
    wallMs = 1_000_000 + laterMs;
    nodes[1]?.tell({ type: 'guessed', at: 'clients', subject: 'address 192.0.2.1' });
    bus.publish(subject, data);
  }

  expect(heard.filter(({ event }) => event.type === 'cancelled')).toHaveLength(2);
});

test.each([
  ['is older than ten seconds', 10_001],
  ['is from the future', -10_001],
])('an event that %s is ignored', (_, passedMs) => {
  bus.onMessage = (_subject, data) => {
    wallMs += passedMs;
    return [data];
  };
  nodes[0]?.tell(cancelled);

  expect(heard).toEqual([]);
});

test('an event of an installation with another master key is ignored', () => {
  const stranger = node('strangerstranger', { masterKey: masterKey(randomBytes(32)) });
  nodes.push(stranger);
  stranger.tell(cancelled);
  const { data } = sent();
  nodes[0]?.tell(cancelled);
  const { subject } = sent(1);
  heard = [];

  bus.publish(subject, data);
  bus.publish(subject, Buffer.from('not sealed'));
  bus.publish(subject, Buffer.from(key.seal('event', JSON.stringify({ event: cancelled }))));

  expect(heard).toEqual([]);
});

test('nothing is sent while NATS is unreachable', () => {
  const away = node('awayawayawayaway', { isConnected: false });
  nodes.push(away);
  away.tell(cancelled);

  expect(bus.published).toEqual([]);
});
