/** Every request has one line in the log, however it ends. */
import { connect } from 'node:net';
import { expect, test, vi } from 'vitest';

import { rawHttp } from '#support/raw-http';
import { patient } from '#support/patient';
import { eventStream, legacySession, talkingGateway } from '#support/talking-gateway';

const { gateway } = await talkingGateway();

type Line = Record<string, unknown>;

/** The lines of requests that were logged since this was called. */
function lines(): () => Line[] {
  const before = gateway.log().length;
  return () => {
    const whole = gateway.log().slice(before).split('\n').slice(0, -1);
    return whole.map((line): Line => JSON.parse(line)).filter(({ msg }) => msg === 'request');
  };
}

/** Waits for the log line of one more request, and returns the lines that were logged before it. */
async function settled(logged: () => Line[]): Promise<Line[]> {
  const { headers } = await fetch(`${gateway.base}/healthz`);
  const id = headers.get('x-request-id');
  await vi.waitFor(() => expect(logged().map((line) => line['id'])).toContain(id), patient);
  return logged().filter((line) => line['id'] !== id);
}

test('request log: a stream that its caller leaves has one line, with the id of its answer', async () => {
  const { endpoint, key } = gateway;
  const headers = await legacySession(endpoint, { key });
  const logged = lines();
  const stream = await eventStream(endpoint, { key }, { headers });
  const id = stream.headers.get('x-request-id');
  const own = async () => (await settled(logged)).filter((line) => line['id'] === id);

  expect(await own()).toEqual([]);

  stream.leave();
  await vi.waitFor(() => expect(logged().some(({ cut }) => cut === true)).toBe(true), patient);

  const route = '/mcp/:organization/:server';
  expect(stream.status).toBe(200);
  expect(await own()).toEqual([expect.objectContaining({ method: 'GET', route, status: 200 })]);
});

const head = 'HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n';
test.each([
  ['an answered request', `GET /healthz ${head}\r\n`, 200],
  ['nothing at its path', `GET /nowhere ${head}\r\n`, 404],
  ['a path that cannot be read', `GET /%zz ${head}\r\n`, 404],
  ['another host', `GET / ${head.replace('HOST', 'elsewhere')}\r\n`, 421],
  ['a method that is unknown', `PUT /mcp/acme/fixture ${head}\r\n`, 405],
  [
    'an upgrade that is refused',
    `GET /api/agents/connect ${head.replace('close', 'upgrade')}Upgrade: websocket\r\n\r\n`,
    401,
  ],
])('request log: %s has one line', async (_, text, status) => {
  const logged = lines();
  const { host } = new URL(gateway.base);
  // The server closes each of these connections.
  const sent = text.replace('HOST', host);
  const { statuses } = await rawHttp(gateway.port, sent);
  const own = await settled(logged);

  expect(statuses).toEqual([status]);
  expect(own.map((line) => [line['status'], line['cut']])).toEqual([[status, undefined]]);
});

test('request log: a caller that disconnects during the request has one line', async () => {
  const logged = lines();
  const { host } = new URL(gateway.base);
  const socket = connect(gateway.port, '127.0.0.1');
  const type = 'Content-Type: application/x-www-form-urlencoded';
  socket.write(
    `POST /api/oauth/token HTTP/1.1\r\nHost: ${host}\r\n${type}\r\nContent-Length: 9\r\n\r\na=`,
  );
  await new Promise((resolve) => socket.once('connect', resolve));
  await fetch(`${gateway.base}/healthz`);
  socket.destroy();
  await vi.waitFor(() => expect(logged().some(({ cut }) => cut === true)).toBe(true), patient);

  const own = (await settled(logged)).filter(({ route }) => route !== '/healthz');
  expect(own).toEqual([expect.objectContaining({ method: 'POST', route: '/api/oauth/token' })]);
});
