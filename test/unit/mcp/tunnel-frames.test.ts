import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import {
  batchWrites,
  creditFrame,
  frameType,
  FrameWriter,
  jsonFrame,
  maxPayloadBytes,
  readBatch,
  readCredit,
  readFrame,
  readHead,
  readHello,
  readOpen,
  readReset,
  requestHeaders,
  writeFrame,
} from '#mcp/tunnel-frames';
import { batch as batchOf, credit, parsed, types, wireFrame } from '#support/wire-frames';

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

test('tunnel frames: types, bytes and credit are those of the documentation', () => {
  const payload = Buffer.from('text');

  expect(frameType).toEqual(types);
  expect(writeFrame(frameType.data, 0x01020304, payload)).toEqual(
    wireFrame(types.data, 0x01020304, payload),
  );
  expect(parsed(jsonFrame(frameType.open, 7, { a: 1 })).json).toEqual({ a: 1 });
  expect(creditFrame(7, 65_536)).toEqual(credit(7, 65_536));
  expect(readFrame(wireFrame(99, 0xffff_ffff, payload))).toEqual({
    type: 99,
    stream: 0xffff_ffff,
    payload,
  });
  expect(readFrame(Buffer.alloc(4))).toBeUndefined();
});

test('tunnel frames: a payload has at most 64 KiB', () => {
  expect(writeFrame(frameType.data, 1, Buffer.alloc(maxPayloadBytes))).toHaveLength(65_541);
  expect(() => writeFrame(frameType.data, 1, Buffer.alloc(maxPayloadBytes + 1))).toThrow(
    RangeError,
  );
});

test('tunnel frames: a credit of nothing, or of another length than four bytes, is none', () => {
  expect(readCredit(Buffer.from([0, 1, 0, 0]))).toBe(65_536);
  expect(readCredit(Buffer.alloc(4))).toBeUndefined();
  expect(readCredit(Buffer.from([1, 0, 0]))).toBeUndefined();
});

const hello = { version: '1', instance: 'i', servers: [{ name: 'sales', kind: 'stdio' }] };

test('tunnel payloads: HELLO is read without unknown members', () => {
  const servers = [{ name: 'sales', kind: 'stdio', more: 1 }];

  expect(readHello(json({ ...hello, servers, more: 1 }))).toEqual(hello);
  expect(readHello(json({ ...hello, batches: true }))).toEqual({ ...hello, batches: true });
  expect(readHello(json({ ...hello, batches: 'yes' }))).toEqual(hello);
  expect(readHello(json({ version: '1', servers: [] }))).toEqual({ version: '1', servers: [] });
});

test.each<[string, object]>([
  ['no version', { ...hello, version: undefined }],
  ['a version of 65 characters', { ...hello, version: 'v'.repeat(65) }],
  ['an empty instance', { ...hello, instance: '' }],
  ['an instance of 129 characters', { ...hello, instance: 'i'.repeat(129) }],
  ['servers that are no list', { ...hello, servers: {} }],
  ['1001 servers', { ...hello, servers: Array.from({ length: 1001 }, () => hello.servers[0]) }],
  ['a server without a kind', { ...hello, servers: [{ name: 'sales' }] }],
  ['a name of 64 characters', { ...hello, servers: [{ name: 'n'.repeat(64), kind: 'stdio' }] }],
  ['a kind of 33 characters', { ...hello, servers: [{ name: 'n', kind: 'k'.repeat(33) }] }],
  ['a server that is a list', { ...hello, servers: [[]] }],
  ['a list', [hello]],
])('tunnel payloads: HELLO with %s is refused', (_, value) => {
  expect(readHello(json(value))).toBeUndefined();
});

test('tunnel payloads: HEAD keeps the headers that belong in a tunnel', () => {
  const headers = { 'content-type': '', 'mcp-session-id': 's', 'retry-after': '1', cookie: 'a=1' };
  const { cookie: _, ...kept } = headers;

  expect(readHead(json({ status: 200, headers }))).toEqual({ status: 200, headers: kept });
  expect(readHead(json({ status: 599 }))).toEqual({ status: 599, headers: {} });
});

test.each<[string, object]>([
  ['no status', { headers: {} }],
  ['the status 199', { status: 199 }],
  ['the status 600', { status: 600 }],
  ['half a status', { status: 200.5 }],
  ['headers that are a list', { status: 200, headers: [] }],
  ['headers that are null', { status: 200, headers: null }],
  ['an empty session id', { status: 200, headers: { 'mcp-session-id': '' } }],
  ['a line break in a value', { status: 200, headers: { 'content-type': 'a\nb: c' } }],
  ['a character outside ASCII', { status: 200, headers: { 'content-type': 'é' } }],
  ['a value of 1025 characters', { status: 200, headers: { 'retry-after': '1'.repeat(1025) } }],
  ['a value that is null', { status: 200, headers: { 'retry-after': null } }],
])('tunnel payloads: HEAD with %s is refused', (_, value) => {
  expect(readHead(json(value))).toBeUndefined();
});

test('tunnel payloads: RESET has a known code and one line of detail', () => {
  expect(readReset(json({ code: 'timeout', detail: 'a\nb' }))).toEqual({
    code: 'timeout',
    detail: 'a b',
  });
  expect(readReset(json({ code: 'odd', detail: 'd'.repeat(400) }))).toEqual({
    code: 'broken',
    detail: 'd'.repeat(300),
  });
  expect(readReset(Buffer.from('{'))).toEqual({ code: 'broken', detail: '' });
});

test('tunnel headers: both ends pass the same ones, with the trace of a call', () => {
  const through = {
    'content-type': 'application/json',
    accept: '*/*',
    'mcp-session-id': 's',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
    'mcp-param-region': 'eu',
    'last-event-id': '7',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    tracestate: 'congo=1',
  };
  const headers = { ...through, authorization: 'Bearer x', baggage: 'user=dana', cookie: 'a=1' };
  const open = { server: 'sales', method: 'POST', caller: 'c', headers };

  expect(requestHeaders(headers)).toEqual(through);
  expect(readOpen(json(open))?.headers).toEqual(through);
});

test('tunnel headers: a value with a line break or NUL is dropped', () => {
  const headers = {
    accept: 'a\r\nb: c',
    'mcp-name': 'a\0b',
    'mcp-method': 1,
    'last-event-id': '7',
  };
  const open = { server: 'sales', method: 'GET', caller: 'c', headers };

  expect(readOpen(json(open))?.headers).toEqual({ 'last-event-id': '7' });
});

test('a person’s key is read from an OPEN as one header', () => {
  const open = { server: 'crm', method: 'POST', caller: 'c', headers: {} };
  const key = { name: 'x-api-key', value: 'a key' };

  expect(readOpen(json({ ...open, key }))?.key).toEqual(key);
});

test.each([
  { name: 'x-key', value: 'a\r\nx-admin: 1' },
  { name: 'x-key', value: 'a\0' },
  { name: 'x-key', value: '' },
  { name: 'x-key', value: 1 },
  { name: 'x key', value: 'a' },
  { name: 'X-Key', value: 'a' },
  { name: 'content-length', value: '1' },
  { name: 'mcp-session-id', value: 's' },
  { name: 'host', value: 'a' },
  { name: 'transfer-encoding', value: 'chunked' },
  'x-key: a',
  null,
])('an OPEN with the key %j is refused', (key) => {
  const open = { server: 'crm', method: 'POST', caller: 'c', headers: {}, key };

  expect(readOpen(json(open))).toBeUndefined();
});

/** A connection, and what each write to it contained. */
function connection() {
  const duplex = new PassThrough();
  const writes: string[][] = [];
  duplex._writev = (chunks, done) => {
    writes.push(chunks.map(({ chunk }) => String(chunk)));
    done();
  };
  duplex._write = (chunk, _, done) => {
    writes.push([String(chunk)]);
    done();
  };
  const batch = batchWrites(duplex);
  const write = (text: string) => {
    batch.hold();
    duplex.write(text);
  };
  return { duplex, batch, writes, write };
}

/** A writer for another side that reads BATCH, and the messages that it sent. */
function joiningWriter() {
  const messages: Buffer[] = [];
  const writer = new FrameWriter(new PassThrough(), (message) => void messages.push(message));
  writer.joinFrames();
  return { writer, messages };
}

test('frame writer: the frames of a turn are one BATCH, and a frame alone is sent as it is', async () => {
  const { writer, messages } = joiningWriter();
  const frames = [1, 2, 3].map((stream) => writeFrame(frameType.data, stream, Buffer.from('text')));
  for (const frame of frames) writer.send(frame);
  const before = messages.length;
  await nextTurn();
  const [last = Buffer.alloc(0)] = frames;
  writer.send(last);
  await nextTurn();

  expect(before).toBe(0);
  expect(messages).toEqual([batchOf(...frames), last]);
  const read = readBatch(messages[0]?.subarray(5) ?? Buffer.alloc(0));
  expect(read).toEqual(frames.map((frame) => readFrame(frame)));
});

test('frame writer: a BATCH is no longer than a frame may be, and long frames are sent alone, in order', async () => {
  const { writer, messages } = joiningWriter();
  const frames = Array.from({ length: 12 }, (_, at) =>
    writeFrame(frameType.data, at, Buffer.alloc(at % 4 === 3 ? 20_000 : 16_000, at)),
  );
  for (const frame of frames) writer.send(frame);
  writer.flush();

  const sent = messages.flatMap((message) =>
    message[0] === types.batch
      ? (readBatch(message.subarray(5)) ?? [])
      : (readFrame(message) ?? []),
  );
  expect(sent).toEqual(frames.map((frame) => readFrame(frame)));
  expect(messages.map(({ length }) => length).every((length) => length <= 65_541)).toBe(true);
  expect(messages).toHaveLength(6);
});

test('frame writer: an other side that is not known to read BATCH gets frames', async () => {
  const messages: Buffer[] = [];
  const writer = new FrameWriter(new PassThrough(), (message) => void messages.push(message));
  const frames = [1, 2].map((stream) => writeFrame(frameType.end, stream));
  for (const frame of frames) writer.send(frame);
  await nextTurn();

  expect(messages).toEqual(frames);
});

test('batched writes: what is written in one turn of the event loop goes out together at its end', async () => {
  const { writes, write } = connection();
  for (const text of ['a', 'b', 'c']) write(text);

  expect(writes).toEqual([]);

  await nextTurn();

  expect(writes).toEqual([['a', 'b', 'c']]);
});

test('batched writes: the next turn holds back again', async () => {
  const { writes, write } = connection();
  write('a');
  await nextTurn();
  write('b');
  write('c');
  const before = writes.length;
  await nextTurn();

  expect(before).toBe(1);
  expect(writes).toEqual([['a'], ['b', 'c']]);
});

test('batched writes: a release writes immediately, and the connection is uncorked once', async () => {
  const { duplex, batch, writes, write } = connection();
  const uncork = vi.spyOn(duplex, 'uncork');
  write('a');
  write('b');
  batch.release();

  expect(writes).toEqual([['a', 'b']]);

  batch.release();
  await nextTurn();

  expect(uncork).toHaveBeenCalledTimes(1);
});

test('batched writes: what is written after a release is held until the end of the turn', async () => {
  const { writes, write, batch } = connection();
  write('a');
  batch.release();
  write('b');
  write('c');
  const before = writes.length;
  await nextTurn();
  await nextTurn();

  expect(before).toBe(1);
  expect(writes).toEqual([['a'], ['b', 'c']]);
});
