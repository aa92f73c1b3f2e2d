import { once } from 'node:events';
import { createServer, IncomingMessage, type ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { idleConnections, isAllowedOrigin, isLongHeader, ownHost } from '#server/http/guards';
import { listen } from '#support/loopback';

const base = 'https://latchkey.example.com:8443';

test('the default port of a scheme may be written', () => {
  expect(ownHost('https://latchkey.example.com')('latchkey.example.com:443')).toBe(true);
  expect(ownHost('https://latchkey.example.com')('latchkey.example.com:80')).toBe(false);
  expect(ownHost('http://127.0.0.1')('127.0.0.1:80')).toBe(true);
});

describe('a Host header', () => {
  test.each([
    [true, 'latchkey.example.com:8443'],
    [true, 'LATCHKEY.example.com:8443'],
    [false, 'latchkey.example.com'],
    [false, 'latchkey.example.com:8444'],
    [false, 'evil.example.com:8443'],
    [false, 'latchkey.example.com:8443.evil.example'],
    [false, 'latchkey.example.com:84430'],
    [false, 'latchkey.example.com:8443@evil.example'],
    [false, 'latchkey.example.com.:8443'],
    [false, 'localhost:8443'],
    [false, ''],
    [false, undefined],
  ])('is our own (%s): %j', (own, host) => {
    expect(ownHost(base)(host)).toBe(own);
  });
});

test.each([
  [false, 'one long line', 1, 16_380],
  [true, 'one long line', 1, 16_381],
  [false, 'very many lines', 3276, 1],
  [true, 'very many lines', 3277, 1],
])('68: request header: is too long (%s): %s', (isLong, _what, lines, length) => {
  const request = new IncomingMessage(new Socket());
  request.rawHeaders = Array.from({ length: lines }, () => ['X', 'x'.repeat(length)]).flat();

  expect(isLongHeader(request)).toBe(isLong);
});

describe('an origin', () => {
  const allowed = ['https://inspector.example.com'];
  test.each([
    [true, undefined],
    [true, base],
    [true, 'https://inspector.example.com'],
    [false, 'https://evil.example.com'],
    [false, `${base}.evil.example`],
    [false, `${base}0`],
    [false, `${base}@evil.example`],
    [false, `${base}/`],
    [false, 'http://inspector.example.com'],
    [false, 'https://inspector.example.com:444'],
    [false, 'https://inspector.example.com.evil.example'],
    [false, 'null'],
    [false, ''],
  ])('may call (%s): %j', (may, origin) => {
    expect(isAllowedOrigin(origin, base, allowed)).toBe(may);
  });
});

test('idle connections: one that never carried a request is closed, others when they are done', async () => {
  const answers: ServerResponse[] = [];
  // Node itself closes a connection that is done, five seconds later unless it is told otherwise.
  const brief = { keepAliveTimeout: 1, keepAliveTimeoutBuffer: 0 };
  const server = createServer(brief, (_request, response) => void answers.push(response));
  const closeIdle = idleConnections(server);
  const port = await listen(server);
  const opened = async (text: string) => {
    const accepted = once(server, 'connection');
    const socket = connect(port, '127.0.0.1').resume();
    await accepted;
    socket.write(text);
    return socket;
  };
  const unused = await opened('');
  const asked = once(server, 'request');
  const used = await opened('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await asked;
  const [isUnusedClosed, isUsedClosed] = [once(unused, 'close'), once(used, 'close')];
  const isClosed = new Promise<void>((resolve) => void server.close(() => resolve()));
  closeIdle();
  await isUnusedClosed;

  expect(used.destroyed).toBe(false);
  answers[0]?.end();
  await isUsedClosed;
  await isClosed;
});
