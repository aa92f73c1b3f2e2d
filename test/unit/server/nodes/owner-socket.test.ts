import { createServer, request, type RequestListener, type Server } from 'node:http';
import { existsSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  acceptForwarded,
  Forwarder,
  newOwnerSocket,
  type OwnerSocket,
  removeOwnerSocket,
} from '#server/nodes/owner-socket';
import { listen } from '#support/loopback';
import { patient } from '#support/patient';
import { rawHttp } from '#support/raw-http';

let socket: OwnerSocket;
let owner: Server;
let worker: Server;
let port: number;
let closeForwarded: () => Promise<void>;
const failed = vi.fn<(error: unknown) => void>();
const answer = vi.fn<RequestListener>();

beforeEach(async () => {
  failed.mockReset();
  answer.mockReset();
  socket = newOwnerSocket(process.platform);
  owner = createServer({ requireHostHeader: false }, answer);
  closeForwarded = await acceptForwarded(owner, socket);
  const forwarder = new Forwarder(socket, failed);
  worker = createServer({ requireHostHeader: false }, (received, response) =>
    forwarder.forward(received, response),
  );
  worker.on('upgrade', (received, _stream, head) =>
    forwarder.forwardUpgrade(received, { socket: received.socket, head }),
  );
  port = await listen(worker);
});
afterEach(async () => {
  worker.closeAllConnections();
  await new Promise((resolve) => worker.close(resolve));
  owner.closeAllConnections();
  await closeForwarded();
  removeOwnerSocket(socket);
});

const line = (text: string) => `${text}\r\n`;
const post = (more: string, body = 'hello') =>
  line('POST /a%2Fb?c=d HTTP/1.1') +
  line('Host: own.example') +
  line(`Content-Length: ${body.length}`) +
  more +
  line('') +
  body;
/** Answers with what it has read. */
const echo: RequestListener = (received, response) => {
  response.writeHead(201, 'Made', { 'X-Own': ['one', 'two'] });
  received.pipe(response);
};

test('the owner gets the caller’s request, and the caller the owner’s answer', async () => {
  answer.mockImplementation(echo);

  const { text } = await rawHttp(
    port,
    post(line('X-API-Key: k') + line('x-api-key: other') + line('Connection: X-API-Key, close')),
  );

  const [received] = answer.mock.calls[0] ?? [];
  expect([received?.method, received?.url]).toEqual(['POST', '/a%2Fb?c=d']);
  expect(received?.rawHeaders.join(' ')).toBe(
    'Host own.example Content-Length 5 X-API-Key k x-api-key other Connection keep-alive',
  );
  expect(text).toMatch(/^HTTP\/1\.1 201 Made\r\nX-Own: one\r\nX-Own: two\r\nDate: .*\r\n/);
  expect(text).toMatch(/\r\n\r\n5\r\nhello\r\n0\r\n\r\n$/);
});

test('a chunked body arrives, and requests without a body have none', async () => {
  answer.mockImplementation(echo);
  const head = 'POST / HTTP/1.1\r\nHost: own.example\r\n';

  const chunked = await rawHttp(
    port,
    `${head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
  );
  await rawHttp(port, `${head}Connection: close\r\n\r\n`);
  await rawHttp(port, 'GET /healthz HTTP/1.0\r\nTrailer: x\r\n\r\n');

  expect(chunked.text).toContain('\r\n3\r\nabc\r\n');
  const [, second, third] = answer.mock.calls.map(([received]) => received);
  expect(second?.headers).toMatchObject({ 'content-length': '0' });
  expect(third?.headers).toMatchObject({ host: '', 'content-length': '0' });
});

test('the owner sees the address of the caller, and headers do not change it', async () => {
  let address: string | undefined;
  answer.mockImplementation((received, response) => {
    address = received.socket.remoteAddress;
    response.end();
  });
  const headers = { 'X-Forwarded-For': '203.0.113.1' };

  await new Promise((resolve) => {
    request({ port, headers, localAddress: '127.0.0.2' }, (got) => {
      got.resume().once('end', resolve);
    }).end();
  });

  expect(address).toBe('127.0.0.2');
});

test.each([
  ['nothing', ''],
  ['a wrong secret', `${'A'.repeat(43)} 203.0.113.1\n`],
  ['a secret that is too short', 'A 203.0.113.1\n'],
  ['no end of the line', 'A'.repeat(60)],
])('a connection that begins with %s is closed, and reaches nothing', async (_, preface) => {
  const connection = connect(socket.path);
  connection.write(`${preface}GET / HTTP/1.1\r\nHost: own.example\r\n\r\n`);

  await new Promise((resolve) => connection.resume().once('close', resolve));

  expect(answer).not.toHaveBeenCalled();
});

test('a stream passes as it arrives, and the owner notices that the caller disconnects', async () => {
  let isGone = false;
  answer.mockImplementation((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: one\n\n');
    response.once('close', () => (isGone = !response.writableFinished));
  });

  const { text } = await rawHttp(port, 'GET / HTTP/1.1\r\nHost: own.example\r\n\r\n', {
    until: (got) => got.includes('data: one'),
  });

  expect(text).toContain('Content-Type: text/event-stream');
  await vi.waitFor(() => expect(isGone).toBe(true), patient);
});

test('an answer to the head alone arrives without the body', async () => {
  answer.mockImplementation((_, response) => response.writeHead(401).end());

  const { statuses } = await rawHttp(
    port,
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n',
    {
      until: (got) => got.includes('401'),
    },
  );

  expect(statuses).toEqual([401]);
});

test('requests of one caller use one connection to the owner, and no other caller uses it', async () => {
  const connections = new Map<unknown, string[]>();
  answer.mockImplementation(({ socket: connection, url = '' }, response) => {
    connections.set(connection, [...(connections.get(connection) ?? []), url]);
    response.end(url);
  });
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
  const last = (path: string) => get(path, 'Connection: close\r\n');

  const one = await rawHttp(port, get('/1') + get('/2') + last('/3'));
  await rawHttp(port, last('/4'));

  expect([...connections.values()]).toEqual([['/1', '/2', '/3'], ['/4']]);
  expect(one.text.match(/^\/\d/gm)).toEqual(['/1', '/2', '/3']);
});

test('an answer that does not wait for the body leaves the connection usable', async () => {
  answer.mockImplementation((_, response) => response.writeHead(413).end());
  const body = 'x'.repeat(1_000_000);

  const { statuses } = await rawHttp(port, post('', body) + post(line('Connection: close')));

  expect(statuses).toEqual([413, 413]);
});

test('a request to upgrade passes, with all bytes that follow in both directions', async () => {
  owner.on('upgrade', (received, stream, head) => {
    stream.write(`HTTP/1.1 101 Switching Protocols\r\n\r\n${String(received.headers['x-own'])} `);
    // How much of the text comes with the head depends on how busy the machine is.
    let missing = 'early, late'.length;
    const sendBack = (chunk: Buffer) => {
      stream.write(chunk);
      missing -= chunk.length;
      if (missing === 0) stream.end();
    };
    sendBack(head);
    stream.on('data', sendBack);
  });
  const head = ['GET /up HTTP/1.1', 'Host: own.example', 'Connection: Upgrade', 'Upgrade: any'];

  const { text, closed } = await rawHttp(port, [
    `${head.join('\r\n')}\r\nX-Own: yes\r\n\r\nearly, `,
    'late',
  ]);

  expect(closed).toBe(true);
  expect(text).toMatch(/^HTTP\/1\.1 101 .*\r\n\r\nyes early, late$/);
});

test('without an owner, the caller may retry', async () => {
  await closeForwarded();

  const { text, statuses } = await rawHttp(port, post(line('Connection: close')));

  expect(statuses).toEqual([503]);
  expect(text).toContain('\r\nRetry-After: 1\r\n');
  expect(failed).toHaveBeenCalledOnce();
});

test('when the connection to the owner breaks, the caller must not retry', async () => {
  answer.mockImplementation(({ socket: connection }) => connection.destroy());

  const { text, statuses } = await rawHttp(port, post(line('Connection: close')));

  expect(statuses).toEqual([502]);
  expect(text).not.toContain('Retry-After');
});

test('when an answer of the owner is interrupted, the connection to the caller is, too', async () => {
  answer.mockImplementation((received, response) => {
    response.write('part', () => received.socket.destroy());
  });

  const { text, closed } = await rawHttp(port, post(''));

  expect(closed).toBe(true);
  expect(text).toContain('part');
  expect(text).not.toContain('\r\n0\r\n');
});

test('the socket is in its own folder that only this user may enter, which can be removed with it', () => {
  const other = newOwnerSocket('linux');
  const folder = dirname(other.path);
  const { mode } = statSync(folder);

  removeOwnerSocket(other);

  expect(mode & 0o777).toBe(0o700);
  expect(existsSync(folder)).toBe(false);
});

test('on Windows the socket is a named pipe', () => {
  const { path } = newOwnerSocket('win32');

  expect(path).toMatch(/^\\\\\.\\pipe\\latchkey-[0-9a-f]{32}$/);
});
