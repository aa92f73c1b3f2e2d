/** The floor of a page: bare Fastify, which sends the very bytes of each page in the folder it is given. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fastify from 'fastify';

const folder = process.argv[2] ?? '.';
const app = fastify();
for (const name of readdirSync(folder)) {
  const page = readFileSync(join(folder, name), 'utf8');
  app.get(`/${name}`, (_request, reply) => reply.type('text/html; charset=utf-8').send(page));
}
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
