import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { httpClient } from '#proxy/transport/http-client';
import { countedServer } from '#support/counted-server';

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
