import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { httpFront, type FrontKind } from '#support/http-front';
import { listen } from '#support/loopback';
import { suite } from '#support/suite';

for (const kind of ['nginx', 'caddy'] satisfies FrontKind[]) {
  await suite(kind, `${kind} as a front`, () => {
    test('it passes requests on with Host and forwarding headers, and streams answers', async () => {
      const upstream = createServer((request, response) => {
        const { host, 'x-forwarded-for': by, 'x-forwarded-proto': proto } = request.headers;
        // Never ended: what arrives has been streamed.
        response.write(JSON.stringify({ host, by, proto }));
      });
      await using front = await httpFront(kind, await listen(upstream));

      const response = await fetch(front.origin);
      const first = await response.body?.getReader().read();
      upstream.closeAllConnections();
      upstream.close();

      expect(JSON.parse(Buffer.from(first?.value ?? []).toString())).toEqual({
        host: `127.0.0.1:${front.port}`,
        by: '127.0.0.1',
        proto: 'http',
      });
    });
  });
}
