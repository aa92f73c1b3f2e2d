import { createServer, type Socket } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { httpClient } from '#proxy/transport/http-client';
import { authority } from '#support/certificates';
import { countedServer } from '#support/counted-server';
import { listen } from '#support/loopback';
import { temporaryFolder } from '#support/temporary-folder';
import { tlsServer } from '#support/tls-server';

test('HTTP client: after sleep it opens a new connection, because old ones may be dead', async () => {
  const sockets: Socket[] = [];
  await using server = await countedServer((request, response) => {
    sockets.push(request.socket);
    response.end('ok');
  });
  let slept = false;
  const client = httpClient(
    () => ({ env: {} }),
    () => slept,
  );
  const get = async () => {
    const url = new URL(server.origin);
    const response = await client.request({ url, method: 'GET', headers: {} });
    for await (const _ of response);
  };

  await get();
  await get();
  slept = true;
  await get();
  client.close();

  expect(sockets[1]).toBe(sockets[0]);
  expect(sockets[2]).not.toBe(sockets[0]);
});

test('HTTP client: the error for https at a port without TLS says so', async () => {
  await using server = await countedServer((_, response) => response.end('ok'));
  const client = httpClient(() => ({ env: {} }));
  const url = new URL(server.origin.replace('http:', 'https:'));

  const request = client.request({ url, method: 'GET', headers: {} });

  await expect(request).rejects.toMatchObject({
    code: 'unreachable',
    message: `cannot reach ${url.origin}: it does not use TLS there; check the port, or use http`,
  });
  client.close();
});

test('HTTP client: a file of authorities that cannot be read is read again at the next request', async () => {
  await using folder = await temporaryFolder('authorities');
  const company = await authority();
  const caFile = join(folder.path, 'ca.pem');
  await using server = await tlsServer(await company.issue('127.0.0.1'), (_, response) =>
    response.end('ok'),
  );
  const client = httpClient(() => ({ env: {}, caFile }));
  const url = new URL(`https://127.0.0.1:${server.port}/`);
  const request = async () => client.request({ url, method: 'GET', headers: {} });

  await expect(request()).rejects.toMatchObject({ code: 'settings' });
  await writeFile(caFile, company.cert);
  const response = await request();
  for await (const _ of response);
  client.close();

  expect(response.statusCode).toBe(200);
});

test('HTTP client: aborting ends a request whose body nobody reads, although its response has arrived', async () => {
  const body = Buffer.alloc(32 * 1024 * 1024);
  let bytes = 0;
  const connected = Promise.withResolvers<Socket>();
  const ended = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.write('HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n');
    socket.on('data', ({ length }) => {
      bytes += length;
      if (bytes > body.length) ended.resolve();
    });
    socket.on('error', () => undefined).on('close', () => ended.resolve());
    socket.pause();
    connected.resolve(socket);
  });
  const url = new URL(`http://127.0.0.1:${await listen(server)}/`);
  const http = httpClient(() => ({ env: {} }));
  const ending = new AbortController();
  const { signal } = ending;
  const response = await http.request({ url, method: 'POST', headers: {}, body, signal });
  response.resume();
  ending.abort();
  (await connected.promise).resume();
  await ended.promise;
  http.close();
  await new Promise((resolve) => void server.close(resolve));

  expect(response.statusCode).toBe(413);
  expect(bytes).toBeLessThan(body.length);
});
