import { createServer, type RequestListener } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { rawHttp } from '#support/raw-http';
import { freePort, listen } from '#support/loopback';

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  const port = await listen(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return port;
}

test('raw HTTP: two requests in one write give two statuses', async () => {
  const port = await serve((request, response) => {
    response.statusCode = request.url === '/a' ? 200 : 404;
    response.end('{}');
  });

  const answer = await rawHttp(
    port,
    'GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  );

  expect(answer.statuses).toEqual([200, 404]);
  expect(answer.closed).toBe(true);
});

test('raw HTTP: bytes arrive as they were sent, one write after the other', async () => {
  const port = await serve((request, response) => {
    response.setHeader('x-got', String(request.headers['x-raw']));
    response.end();
  });

  const answer = await rawHttp(port, [
    'GET / HTTP/1.1\r\nHost: a\r\nX-R',
    Buffer.from('aw: \xff\r\nConnection: close\r\n\r\n', 'latin1'),
  ]);

  expect(answer.text).toContain('x-got: \xff');
});

test('raw HTTP: a connection that stays open is closed at its time limit, or once enough has arrived', async () => {
  const port = await serve((_, response) => response.end('done'));
  const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

  const left = await rawHttp(port, request, { timeoutMs: 100 });
  const enough = await rawHttp(port, request, { until: (text) => text.endsWith('done') });

  expect(left).toMatchObject({ statuses: [200], closed: false });
  expect(enough).toMatchObject({ statuses: [200], closed: false });
});

test('raw HTTP: a port without a listener is an error', async () => {
  await expect(rawHttp(await freePort(), 'GET / HTTP/1.1\r\n\r\n')).rejects.toThrow(/ECONNREFUSED/);
});
