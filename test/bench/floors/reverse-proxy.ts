/**
 * The floor of a gateway: passes each request on as it comes, without looking at it.
 *
 *     node reverse-proxy.ts UPSTREAM_ORIGIN
 */
import { createServer } from 'node:http';
import { Pool } from 'undici';
import { listen } from '#support/loopback';

const upstream = new Pool(process.argv[2] ?? '', { connections: 64 });

const server = createServer((request, response) => {
  const options = {
    method: 'POST',
    path: '/mcp',
    headers: { 'content-type': 'application/json' },
    body: request,
  } as const;
  upstream
    .stream(options, ({ statusCode, headers }) => {
      response.writeHead(statusCode, { 'content-type': String(headers['content-type']) });
      return response;
    })
    .catch(() => response.destroy());
});

console.log(`listening on http://127.0.0.1:${await listen(server)}`);
