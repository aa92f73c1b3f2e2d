/**
 * Loaded into the server by `node --import`: writes the routes of its Fastify applications into the file that
 * `WATCH_ROUTES` names, a line each, whenever one of them is ready.
 */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';

const messageSchema = z.object({ fastify: z.custom<FastifyInstance>() });
const file = process.env['WATCH_ROUTES'] ?? '';
const methodsOf = new Map<string, Set<string>>();

subscribe('fastify.initialization', (message) => {
  const { fastify } = messageSchema.parse(message);
  fastify.addHook('onRoute', ({ method, url }) => {
    const methods = methodsOf.get(url) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    methodsOf.set(url, methods);
  });
  fastify.addHook('onReady', async () => {
    const lines = [...methodsOf].map(([url, methods]) => {
      return `${url}  ${[...methods].toSorted().join(' ')}\n`;
    });
    writeFileSync(file, lines.toSorted().join(''));
  });
});
