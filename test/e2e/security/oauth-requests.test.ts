import { connect } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

import { afterAll, describe, expect, test } from 'vitest';
import { acmeServer, basic } from '#support/acme-server';
import { rawHttp } from '#support/raw-http';

const server = await acmeServer();
afterAll(() => server[Symbol.asyncDispose]());
const client = await server.client();
const other = await server.client();
const parameters = {
  grant_type: 'client_credentials',
  client_id: client.id,
  client_secret: client.secret,
  token: 'unknown',
};
const good = new URLSearchParams(parameters).toString();
const formType = 'application/x-www-form-urlencoded';

describe.each(['/api/oauth/token', '/api/oauth/revoke'])('42: requests to %s', (path) => {
  const send = (body: NonNullable<RequestInit['body']>, type?: string) =>
    server.request(path, {
      method: 'POST',
      body,
      ...(type !== undefined && { headers: { 'Content-Type': type } }),
    });

  test('a form is read, even with parameters or capital letters in its media type', async () => {
    const types = [formType, `${formType}; charset=UTF-8`, formType.toUpperCase()];
    for (const type of types) expect((await send(good, type)).status).toBe(200);
  });

  test('a form is UTF-8, whatever charset its media type names', async () => {
    const type = `${formType}; charset=utf-16`;
    const answer = await send(Buffer.from(good, 'utf16le'), type);

    expect((await send(good, type)).status).toBe(200);
    expect(answer.status).toBe(400);
  });

  test('JSON, multipart and everything else that is not a form is refused', async () => {
    const multipart = new FormData();
    for (const [name, value] of Object.entries(parameters)) multipart.set(name, value);
    const answers = [
      await send(JSON.stringify(parameters), 'application/json'),
      await send(multipart),
      await send(good, 'text/plain'),
      await send(good, `${formType}2`),
      await send(good, 'garbage'),
      await send(Buffer.from(good)),
    ];

    for (const { status, json, headers } of answers) {
      expect([400, 415]).toContain(status);
      expect(json['error']).toBe('invalid_request');
      expect(headers.get('cache-control')).toBe('no-store');
    }
  });

  test('a body over 16 KiB is refused with 413, and one just below is read', async () => {
    const padded = (bytes: number) => `${good}&pad=${'x'.repeat(bytes - good.length - 5)}`;
    const chunked = rawPost(path, [
      'Transfer-Encoding: chunked',
      '',
      '5000',
      padded(0x5000),
      '0\r\n\r\n',
    ]);

    expect((await send(padded(16 * 1024), formType)).status).toBe(200);
    expect((await send(padded(16 * 1024 + 1), formType)).status).toBe(413);
    expect((await send(padded(1024 * 1024), formType)).status).toBe(413);
    expect((await chunked).statuses).toEqual([413]);
  });

  test('a client may send all of a body over 16 KiB, and then reads the 413', async () => {
    const { hostname, port } = new URL(server.base);
    const bytes = 512 * 1024;
    const socket = connect({ host: hostname, port: Number(port) });
    const head = `POST ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Length: ${bytes}`;
    socket.write(`${head}\r\nContent-Type: ${formType}\r\n\r\n`);

    for (let sent = 0; sent < bytes; sent += bytes / 8) {
      await setTimeout(20);
      // Rejects if the server has closed the connection.
      await promisify(socket.write.bind(socket))(Buffer.alloc(bytes / 8, 'x'));
    }

    expect(await textOf(socket)).toMatch(/^HTTP\/1\.1 413 /);
  });

  test('1,000 parameters are refused, even empty and nameless ones', async () => {
    const many = Array.from({ length: 1000 }, (_, index) => `p${index}=`).join('&');
    for (const body of [`${good}&${many}`, `${many}&${good}`]) {
      const answer = await send(body, formType);

      expect(answer.status).toBe(400);
      expect(answer.json['error']).toBe('invalid_request');
    }
  });

  test('invalid UTF-8 and NUL are refused: plain, percent-encoded, in a name and in Basic', async () => {
    const bytes = (text: string) => Buffer.from(text, 'latin1');
    const bodies = [
      bytes(`${good}&x=\xff`),
      bytes(`${good}&\xc0\xaf=x`),
      bytes(`${good}&x=\xed\xa0\x80`),
      bytes(`${good}&x=a\0b`),
      `${good}&x=%FF`,
      `${good}&%FF=x`,
      `${good}&x=%C0%AF`,
      `${good}&x=%ED%A0%80`,
      `${good}&x=%00`,
      `${good}&%00=x`,
      `${good}&x=%`,
      `${good}&x=%zz`,
      good.replace(client.id, `${client.id}%00`),
      good.replace(client.secret, `${client.secret}%00`),
    ];
    for (const body of bodies) {
      const answer = await send(body, formType);

      expect(answer.status).toBe(400);
      expect(answer.json['error']).toBe('invalid_request');
    }
    const form = { grant_type: 'client_credentials', token: 'unknown' };
    for (const id of [`${client.id}%00`, `${client.id}\0`, `${client.id}\xff`]) {
      const pair = Buffer.from(`${id}:${client.secret}`, 'latin1').toString('base64');
      const answer = await server.post(path, form, { Authorization: `Basic ${pair}` });

      expect([400, 401]).toContain(answer.status);
    }
  });

  test('no parameter is mistaken for a property of Object.prototype', async () => {
    for (const name of ['__proto__', 'constructor', 'toString', '__proto__[client_id]']) {
      const answer = await send(`${good}&${name}=x`, formType);

      expect(answer.status).toBe(200);
    }
  });

  test('a parameter written as an array or object is an unknown name', async () => {
    const nested = good.replace('client_id=', 'client_id[]=');

    expect((await send(nested, formType)).json['error']).toBe('invalid_request');
  });

  test('a client_id of 5,000 characters is an unknown client', async () => {
    const long = good.replace(client.id, `client_${'A'.repeat(5000)}`);
    const answer = await send(long, formType);

    expect(answer.status).toBe(401);
    expect(answer.json['error']).toBe('invalid_client');
    expect(answer.text.length).toBeLessThan(200);
  });

  test('a client_id with SQL or wildcards is an unknown client', async () => {
    for (const id of [`' or '1'='1`, `client_%`, `${client.id}' --`, `${client.id} `, '*']) {
      const answer = await send(new URLSearchParams({ ...parameters, client_id: id }));

      expect(answer.status).toBe(401);
    }
  });

  test('GET and PUT do nothing, with or without parameters in the URL', async () => {
    for (const [method, query] of [
      ['GET', `?${good}`],
      ['PUT', ''],
      ['HEAD', ''],
      ['DELETE', ''],
    ] as const) {
      const answer = await server.request(path + query, { method });

      expect([404, 405]).toContain(answer.status);
      expect(answer.text).not.toContain(client.secret);
    }
  });

  test('pages of other origins get no CORS header', async () => {
    const headers = { Origin: 'https://evil.example' };
    const preflight = await server.request(path, {
      method: 'OPTIONS',
      headers: { ...headers, 'Access-Control-Request-Method': 'POST' },
    });
    const actual = await server.post(path, good, headers);

    for (const { headers: sent } of [preflight, actual]) {
      expect([...sent.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  test('two requests in one packet are answered in turn, each on its own', async () => {
    const first = request(path, good, ['Connection: keep-alive']);
    const wrong = good.replace(client.secret, other.secret);
    const { statuses } = await rawHttp(server.port, first + request(path, wrong));

    expect(statuses).toEqual([200, 401]);
  });

  test('bytes after the Content-Length are not a second request', async () => {
    const inner = request('/api/oauth/token', good);
    const outer = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n`;
    const sent = `${outer}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`;
    const { statuses, closed } = await rawHttp(server.port, sent);

    expect(statuses).toEqual([400]);
    expect(closed).toBe(true);
  });

  test('HTTP/1.0 is served with a Host header, and refused without', async () => {
    const head = `Content-Type: ${formType}\r\nContent-Length: ${good.length}\r\n\r\n${good}`;
    const named = `POST ${path} HTTP/1.0\r\nHost: 127.0.0.1:${server.port}\r\n${head}`;

    expect((await rawHttp(server.port, named)).statuses).toEqual([200]);
    expect((await rawHttp(server.port, `POST ${path} HTTP/1.0\r\n${head}`)).statuses).toEqual([
      421,
    ]);
  });

  test('the host of an absolute request target counts, not the Host header', async () => {
    const own = `127.0.0.1:${server.port}`;
    const aimedAt = (target: string) =>
      rawHttp(server.port, request(path, good).replace(`POST ${path}`, `POST ${target}${path}`));

    expect((await aimedAt(`http://${own}`)).statuses).toEqual([200]);
    for (const target of ['http://evil.example', `http://${own}@evil.example`, 'ftp://x']) {
      expect((await aimedAt(target)).statuses).toEqual([421]);
    }
  });

  test('two Authorization headers are refused, whichever is right', async () => {
    const body = 'grant_type=client_credentials&token=unknown';
    const right = `Authorization: ${basic(client.id, client.secret)['Authorization']}`;
    const wrong = `Authorization: ${basic(client.id, other.secret)['Authorization']}`;
    const sent = async (...headers: string[]) =>
      (await rawHttp(server.port, request(path, body, ['Connection: close', ...headers]))).statuses;

    expect(await sent(right)).toEqual([200]);
    expect(await sent(wrong)).toEqual([401]);
    expect(await sent(right, wrong)).toEqual([400]);
    expect(await sent(wrong, right)).toEqual([400]);
    expect(await sent(right, right)).toEqual([400]);
  });

  test('two Content-Type headers are refused, whichever is right', async () => {
    const json = request(path, good, ['Connection: close', 'Content-Type: application/json']);
    const same = request(path, good, ['Connection: close', `Content-Type: ${formType}`]);

    for (const twice of [json, same]) {
      const { statuses, text } = await rawHttp(server.port, twice);

      expect(statuses).toEqual([400]);
      expect(text).toContain('"error":"invalid_request"');
    }
  });

  test('a fragment in the request target is refused like a query', async () => {
    for (const target of [`${path}#${good}`, `${path}#`, `${path}#x?y`, `${path}?`]) {
      const { statuses, text } = await rawHttp(server.port, request(target, good));

      expect(statuses).toEqual([400]);
      expect(text).toContain('"error":"invalid_request"');
    }
  });
});

test.each([
  '//api/oauth/token',
  '/api//oauth/token',
  '/api/oauth/token/',
  '/api/oauth/token/.',
  '/api/oauth/x/../token',
  '/api/oauth/%2e%2e/oauth/token',
  '/api/oauth/token%2f',
  '/api%2foauth%2ftoken',
  '/api/oauth/token%00',
  '/api/oauth/token;x=1',
  '/API/OAUTH/TOKEN',
  '/api/oauth\\token',
])('42: token endpoint: %s is not another name of it', async (path) => {
  const { statuses, text } = await rawHttp(server.port, request(path, good));

  expect([[400], [404]]).toContainEqual(statuses);
  expect(text).not.toContain('access_token');
});

test.each([
  '/api/oauth/token%',
  '/%zz',
  '/api/%ff',
  '/mcp/acme/%c0%af',
  `/mcp/acme/${'x'.repeat(150)}`,
])('42: malformed path: %s is refused without repeating it', async (path) => {
  const long = `${path}${client.secret}${'x'.repeat(200)}`;
  for (const target of [path, `${path}${client.secret}`, `${path}?${good}`, long]) {
    const { statuses, text } = await rawHttp(server.port, request(target, good));

    expect([[400], [404]]).toContainEqual(statuses);
    expect(text).toMatch(/^x-request-id: \S+/im);
    expect(text).not.toContain(client.secret);
  }
});

/** The bytes of a form POST, with these headers beside those it needs. */
function request(path: string, body: string, headers = ['Connection: close']): string {
  const own = [`Host: 127.0.0.1:${server.port}`, `Content-Type: ${formType}`];
  const length = `Content-Length: ${body.length}`;
  return [`POST ${path} HTTP/1.1`, ...own, ...headers, length, '', body].join('\r\n');
}

/** A form POST without a length: `rest` brings its own framing. */
function rawPost(path: string, rest: readonly string[]) {
  const own = [`Host: 127.0.0.1:${server.port}`, `Content-Type: ${formType}`, 'Connection: close'];
  return rawHttp(server.port, [`POST ${path} HTTP/1.1`, ...own, ...rest].join('\r\n'));
}
