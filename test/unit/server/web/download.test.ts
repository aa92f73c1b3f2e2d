import { fastify } from 'fastify';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { downloadRoutes } from '#server/web/download';
import { handedOut, pageApp, type PageApp } from '#support/page-app';

const { fileName, sha256, bytes } = handedOut;
const path = `/download/${fileName}`;
const settled = `${path}?v=${sha256.slice(0, 16)}`;
let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const get = (at: string, headers = {}) => app.api({ method: 'GET', path: at, headers });

test('anybody gets the proxy, with a tag of its content', async () => {
  const { status, headers, text } = await get(path);

  expect([status, text]).toEqual([200, bytes.toString()]);
  expect(headers).toMatchObject({
    'content-type': 'application/gzip',
    'content-length': String(bytes.length),
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    etag: `"${sha256}"`,
  });
});

test('the URL that names the content may be kept for good, one that names another content may not', async () => {
  const right = await get(settled);
  const older = await get(`${path}?v=0123456789abcdef`);

  expect(right.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  expect(older.headers['cache-control']).toBe('no-cache');
  expect([right.text, older.text]).toEqual([bytes.toString(), bytes.toString()]);
});

test.each([`"${sha256}"`, `W/"${sha256}"`, `"other", "${sha256}"`, '*'])(
  'who has it already, as %s says, gets it again no more',
  async (tag) => {
    const { status, headers, text } = await get(path, { 'if-none-match': tag });

    expect([status, text]).toEqual([304, '']);
    expect(headers['etag']).toBe(`"${sha256}"`);
  },
);

test('who has another content gets this one', async () => {
  expect(await get(path, { 'if-none-match': '"other"' })).toMatchObject({ status: 200 });
});

test('its SHA-256 is a file as sha256sum reads it', async () => {
  const { status, headers, text } = await get(`${path}.sha256`);

  expect([status, text]).toEqual([200, `${sha256}  ${fileName}\n`]);
  expect(headers['content-type']).toBe('text/plain; charset=utf-8');
});

test.each([
  'latchkey-1.2.2.tgz',
  'latchkey.tgz',
  'latchkey-1.2.3.tgz.sha512',
  '..%2f..%2fpackage.json',
  'latchkey-1.2.3.tgz%00',
])('%s is not found, and the answer names what is there', async (name) => {
  const { status, text } = await get(`/download/${name}`);

  expect(status).toBe(404);
  expect(JSON.parse(text)).toEqual({
    error: 'not_found',
    error_description: expect.stringContaining(`${app.server.base}/download/latchkey-1.2.3.tgz`),
  });
});

test('the page shows the file with its SHA-256, and how to run, install and check it', async () => {
  const { status, text } = await app.get('/download/', '');
  const plain = text.replaceAll('&quot;', '"');
  const url = `${app.server.base}${settled}`;

  expect(status).toBe(200);
  expect(plain).toContain(sha256);
  expect(plain).toContain(`npx -y "${url}" --help`);
  expect(plain).toContain(`npm install --global "${url}"`);
  expect(plain).toContain(`curl -fsS ${app.server.base}${path}.sha256 | sha256sum --check`);
  expect(plain).toContain('NODE_EXTRA_CA_CERTS');
  expect(await app.get('/download', '')).toMatchObject({ status: 308, location: '/download/' });
});

test('a server without a copy says so, and when to ask again, and nothing of its own folders', async () => {
  await using bare = fastify();
  const proxyDownload = { fileName, copy: async () => undefined };
  downloadRoutes(bare, { base: 'https://latchkey.example.com', proxyDownload });

  for (const at of ['/download/', path, `${path}.sha256`]) {
    const { statusCode, headers, body } = await bare.inject(at);

    expect(statusCode).toBe(503);
    expect(headers['retry-after']).toBe('30');
    expect(JSON.parse(body)).toMatchObject({ error: 'unavailable' });
  }
});

test('HEAD says the same without the content', async () => {
  await using bare = fastify();
  const proxyDownload = { fileName, copy: async () => handedOut };
  downloadRoutes(bare, { base: 'https://latchkey.example.com', proxyDownload });

  const { statusCode, headers, body } = await bare.inject({ method: 'HEAD', url: path });

  expect([statusCode, body]).toEqual([200, '']);
  expect(headers).toMatchObject({ etag: `"${sha256}"`, 'content-length': String(bytes.length) });
});
