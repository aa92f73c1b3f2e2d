import { once } from 'node:events';
import { get } from 'node:http';

import fastify from 'fastify';
import { expect, test } from 'vitest';

import { sendExport } from '#server/web/dashboard/page';

test('exported file: it ends when the reader disconnects, also while there is nothing to send', async () => {
  await using app = fastify();
  const stopped = Promise.withResolvers<string>();
  app.get('/', (_request, reply) =>
    sendExport(reply, {
      name: 'activity-acme',
      format: 'csv',
      now: 1_800_000_000,
      async *pieces(signal) {
        yield 'at\r\n';
        await once(signal, 'abort');
        stopped.resolve('stopped');
      },
    }),
  );
  const request = get(await app.listen());
  const [response] = await once(request, 'response');
  await once(response, 'data');

  request.destroy();

  expect(await stopped.promise).toBe('stopped');
  expect(response.headers).toMatchObject({
    'content-type': 'text/csv; charset=utf-8',
    'content-disposition': 'attachment; filename="activity-acme-2027-01-15.csv"',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
});
