import type { Socket } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { httpClient } from '#proxy/transport/http-client';
import { authority } from '#support/certificates';
import { countedServer } from '#support/counted-server';
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
