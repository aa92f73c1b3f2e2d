import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { fastify } from 'fastify';
import { unzipSync } from 'fflate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { downloadRoutes } from '#server/web/download';
import { bundleOfBuild } from '#support/bundle-of-build';
import { handedOut, pageApp, proxyDownload, type PageApp } from '#support/page-app';

const { fileName, sha256, bytes } = handedOut;
const path = `/download/${fileName}`;
const settled = `${path}?v=${sha256.slice(0, 16)}`;
let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const get = (at: string, headers = {}) => app.api({ method: 'GET', path: at, headers });

test('everyone gets the proxy, with a tag of its content', async () => {
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

test('the URL with the content’s hash may be cached for ever, one with another hash may not', async () => {
  const right = await get(settled);
  const older = await get(`${path}?v=0123456789abcdef`);

  expect(right.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  expect(older.headers['cache-control']).toBe('no-cache');
  expect([right.text, older.text]).toEqual([bytes.toString(), bytes.toString()]);
});

test.each([`"${sha256}"`, `W/"${sha256}"`, `"other", "${sha256}"`, '*'])(
  'a client that has it already, as %s says, does not get it again',
  async (tag) => {
    const { status, headers, text } = await get(path, { 'if-none-match': tag });

    expect([status, text]).toEqual([304, '']);
    expect(headers['etag']).toBe(`"${sha256}"`);
  },
);

test('a client that has another version gets this one', async () => {
  expect(await get(path, { 'if-none-match': '"other"' })).toMatchObject({ status: 200 });
});

test('its SHA-256 is a file in the format of sha256sum', async () => {
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
])('%s is not found, and the answer lists what is available', async (name) => {
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
  expect(plain).toContain(`npx -y "${url}" setup ${app.server.base}"`);
  expect(plain).toContain(`npm install --global "${url}"`);
  expect(plain).toContain(`curl -fsS ${app.server.base}${path}.sha256 | sha256sum --check`);
  expect(plain).toContain('NODE_EXTRA_CA_CERTS');
  expect(await app.get('/download', '')).toMatchObject({ status: 308, location: '/download/' });
});

/** The routes alone, whose answers are not read as text. */
async function bareApp(own: Partial<typeof proxyDownload> = {}) {
  const bare = fastify();
  const options = {
    base: 'https://latchkey.example.com',
    proxyDownload: { ...proxyDownload, ...own },
  };
  downloadRoutes(bare, options);
  return bare;
}

test('a server without a copy says so and when to retry, and reveals nothing of its folders', async () => {
  await using bare = await bareApp({ copy: async () => undefined });

  for (const at of ['/download/', path, `${path}.sha256`]) {
    const { statusCode, headers, body } = await bare.inject(at);

    expect(statusCode).toBe(503);
    expect(headers['retry-after']).toBe('30');
    expect(JSON.parse(body)).toMatchObject({ error: 'unavailable' });
  }
});

test('HEAD has the same headers without the content', async () => {
  await using bare = await bareApp();

  const { statusCode, headers, body } = await bare.inject({ method: 'HEAD', url: path });

  expect([statusCode, body]).toEqual([200, '']);
  expect(headers).toMatchObject({ etag: `"${sha256}"`, 'content-length': String(bytes.length) });
});

const bundle = '/download/acme/sales.mcpb';

test('bundle: everyone gets one for every well-formed name, as a file to save', async () => {
  await using bare = await bareApp();

  const { statusCode, headers, rawPayload } = await bare.inject(bundle);
  const files = unzipSync(rawPayload);
  const manifest = Buffer.from(files['manifest.json'] ?? []).toString();

  expect(statusCode).toBe(200);
  expect(headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment; filename="acme-sales.mcpb"',
    'content-length': String(rawPayload.length),
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    etag: expect.stringMatching(/^"[0-9a-f]{64}"$/),
  });
  expect(files['bin/latchkey.js']).toEqual(unzipSync(bundleOfBuild)['bin/latchkey.js']);
  expect(manifest).toContain('"https://latchkey.example.com/mcp/acme/sales"');
});

test('bundle: an existing and an unknown server get the same answer but for the name', async () => {
  const [existing, none] = [await get(bundle), await get('/download/acme/none1.mcpb')];
  const comparable = ({ status, headers }: typeof none) => {
    const {
      etag: _,
      'content-disposition': __,
      date: ___,
      'x-request-id': ____,
      ...rest
    } = headers;
    return { status, rest };
  };

  expect(comparable(none)).toEqual(comparable(existing));
});

test('bundle: HEAD has the same headers without the content, and a current copy is not sent again', async () => {
  await using bare = await bareApp();

  const { headers: sent, rawPayload } = await bare.inject(bundle);
  const head = await bare.inject({ method: 'HEAD', url: bundle });
  const known = await bare.inject({
    url: bundle,
    headers: { 'if-none-match': sent['etag'] ?? '' },
  });

  expect([head.statusCode, head.body]).toEqual([200, '']);
  expect(head.headers).toMatchObject({
    etag: sent['etag'],
    'content-length': String(rawPayload.length),
    'content-disposition': sent['content-disposition'],
  });
  expect([known.statusCode, known.body]).toEqual([304, '']);
});

test.each([
  'acme/sales',
  'acme/.mcpb',
  'acme/Sales.mcpb',
  'acme/-sales.mcpb',
  'Acme/sales.mcpb',
  'acme/sales.mcpb.sha256',
  `acme/${'a'.repeat(64)}.mcpb`,
  'acme/..%2fsales.mcpb',
  'acme/sa%22les.mcpb',
  'acme/sales%0d%0aX-Y:%20z.mcpb',
])('bundle: %s is not found, and the answer says where bundles are', async (name) => {
  const { status, headers, text } = await get(`/download/${name}`);

  expect(status).toBe(404);
  expect(headers).not.toHaveProperty('content-disposition');
  expect(JSON.parse(text)).toMatchObject({
    error: 'not_found',
    error_description: expect.stringContaining('/download/ORGANIZATION/SERVER.mcpb'),
  });
});

test('bundle: if the build has none, the file and the page say so', async () => {
  await using bare = await bareApp({
    bundle: async () => undefined,
    reference: async (base) => ({
      ...(await proxyDownload.reference(base)),
      bundles: { state: 'missing' },
    }),
  });

  const { statusCode, headers, body } = await bare.inject(bundle);
  const page = await bare.inject('/download/');

  expect(statusCode).toBe(503);
  expect(headers['retry-after']).toBe('30');
  expect(JSON.parse(body)).toMatchObject({
    error: 'unavailable',
    error_description: expect.stringContaining('npm run bundle'),
  });
  expect(page.body).toContain('The one-click bundle has not been built.');
  expect(page.body).not.toContain('action="/download/bundle"');
});

test('download: a browser gets a page instead of JSON, with the same status', async () => {
  await using bare = await bareApp({ copy: async () => undefined, bundle: async () => undefined });
  const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
  const open = async (url: string) => {
    const { statusCode, headers: sent, body } = await bare.inject({ url, headers });
    return [statusCode, sent['content-type'], sent['vary'], /<h1>([^<]*)/.exec(body)?.[1]];
  };

  const type = 'text/html; charset=utf-8';
  expect(await open(bundle)).toEqual([
    503,
    type,
    'Accept',
    'The one-click bundle has not been built',
  ]);
  expect(await open('/download/')).toEqual([
    503,
    type,
    'Accept',
    'This server has no copy of the proxy',
  ]);
  expect(await open('/download/other.tgz')).toEqual([404, type, 'Accept', 'File not found']);
});

test.each(['https://latchkey.example.com/mcp/acme/sales', ' acme/sales/ '])(
  'bundle: the form of the page leads from %s to the file',
  async (typed) => {
    await using bare = await bareApp();

    const { statusCode, headers } = await bare.inject({
      url: '/download/bundle',
      query: { url: typed },
    });

    expect([statusCode, headers.location]).toEqual([303, bundle]);
  },
);

test.each([
  '',
  'https://other.example.com/mcp/acme/sales',
  '"><script>',
  'acme',
  '//evil.example/x',
])('bundle: the form of the page refuses %s beside its field, escaped', async (typed) => {
  await using bare = await bareApp();

  const { statusCode, body } = await bare.inject({
    url: '/download/bundle',
    query: { url: typed },
  });

  expect(statusCode).toBe(422);
  expect(body).toContain('id="url-error"');
  expect(body).not.toContain('"><script>');
});

const program = {
  kind: 'executable',
  fileName: 'latchkey-1.2.3-linux-x64',
  platform: 'linux',
  arch: 'x64',
  version: '1.2.3',
  size: 7,
  sha256: createHash('sha256').update('program').digest('hex'),
} as const;
const offered = {
  programs: async () => [program],
  program: async () => Readable.from(['pro', 'gram'], { objectMode: false }),
};
const programUrl = `/download/${program.fileName}`;

test('executable: everyone gets it, to be saved under its name, and may keep what its URL identifies', async () => {
  await using bare = await bareApp(offered);

  const { statusCode, headers, body } = await bare.inject(
    `${programUrl}?v=${program.sha256.slice(0, 16)}`,
  );
  const plain = await bare.inject(programUrl);
  const sum = await bare.inject(`${programUrl}.sha256`);

  expect([statusCode, body]).toEqual([200, 'program']);
  expect(headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment; filename="latchkey-1.2.3-linux-x64"',
    'content-length': '7',
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    etag: `"${program.sha256}"`,
  });
  expect(plain.headers['cache-control']).toBe('no-cache');
  expect(sum.body).toBe(`${program.sha256}  ${program.fileName}\n`);
});

test('executable: HEAD opens no file, and a current copy is not sent again', async () => {
  let opened = 0;
  const counting = {
    ...offered,
    program: async () => {
      opened += 1;
      return offered.program();
    },
  };
  await using bare = await bareApp(counting);

  const head = await bare.inject({ method: 'HEAD', url: programUrl });
  const known = await bare.inject({
    url: programUrl,
    headers: { 'if-none-match': `"${program.sha256}"` },
  });

  expect([head.statusCode, head.body, head.headers['content-length']]).toEqual([200, '', '7']);
  expect([known.statusCode, known.body]).toEqual([304, '']);
  expect(opened).toBe(0);
});

test('219: executable: 64 are sent at the same time, another one is refused until one of them ends', async () => {
  const open: Readable[] = [];
  const slow = {
    ...offered,
    program: async () => {
      const content = new Readable({ read: () => {} });
      open.push(content);
      return content;
    },
  };
  await using bare = await bareApp(slow);

  const sent = Array.from({ length: 64 }, async (_, index) =>
    bare.inject({ url: programUrl, remoteAddress: `192.0.2.${index % 2}` }),
  );
  await expect.poll(() => open.length).toBe(64);
  const refused = await bare.inject(programUrl);
  open[0]?.push('program');
  open[0]?.push(null);
  const first = await sent[0];
  const next = bare.inject(programUrl);
  await expect.poll(() => open.length).toBe(65);
  for (const content of open) content.push(null);
  await Promise.allSettled([...sent, next]);

  expect(refused.statusCode).toBe(503);
  expect(refused.headers).toMatchObject({ 'retry-after': '30' });
  expect(refused.headers).not.toHaveProperty('etag');
  expect(refused.headers['cache-control'] ?? '').not.toContain('immutable');
  expect(first?.body).toBe('program');
});

test('234: executable: one network gets 32 at the same time, however slowly it reads, and others get theirs meanwhile', async () => {
  const open: Readable[] = [];
  const slow = {
    ...offered,
    program: async () => {
      const content = new Readable({ read: () => {} });
      open.push(content);
      return content;
    },
  };
  await using bare = await bareApp(slow);
  const from = (remoteAddress: string) => bare.inject({ url: programUrl, remoteAddress });
  const inOneNetwork = (index: number) => `2001:db8::${index + 1}`;

  const sent = Array.from({ length: 32 }, async (_, index) => from(inOneNetwork(index)));
  await expect.poll(() => open.length).toBe(32);
  const refused = from(inOneNetwork(32));
  const other = from('192.0.2.1');
  await expect.poll(() => open.length).toBe(33);
  open[32]?.push('program');
  for (const content of open) content.push(null);
  await Promise.allSettled(sent);
  const again = from(inOneNetwork(0));
  await expect.poll(() => open.length).toBe(34);
  open[33]?.push('program');
  open[33]?.push(null);

  expect((await refused).statusCode).toBe(503);
  expect((await other).body).toBe('program');
  expect((await again).body).toBe('program');
});

test('219: executable: a name that is not listed is not found', async () => {
  await using bare = await bareApp(offered);

  const answers = await Promise.all(
    ['latchkey-1.2.3-linux-arm64', 'latchkey', `${program.fileName}.json`].map(async (name) =>
      bare.inject(`/download/${name}`),
    ),
  );

  expect(answers.map(({ statusCode }) => statusCode)).toEqual([404, 404, 404]);
});

test('executable: the page has the file with size, SHA-256 and commands; without any it says what to do', async () => {
  const reference = async (base: string) => ({
    ...(await proxyDownload.reference(base)),
    programs: [program, { ...program, fileName: 'latchkey.exe', platform: 'win32' as const }],
  });
  await using some = await bareApp({ ...offered, reference });
  await using none = await bareApp();

  const page = (await some.inject('/download/')).body.replaceAll('&quot;', '"');
  const empty = (await none.inject('/download/')).body;

  const url = `${programUrl}?v=${program.sha256.slice(0, 16)}`;
  expect(page).toContain(`<a href="${url}" download>${program.fileName}</a>, 1 MB`);
  expect(page).toContain('<summary>Linux x64</summary>');
  expect(page).toContain(`echo "${program.sha256}  latchkey.download" | sha256sum --check`);
  expect(page).toContain('<summary>Windows x64</summary>');
  expect(page).toContain(
    `Hash -eq "${program.sha256}") { Move-Item -Force latchkey.download latchkey.exe; .\\latchkey.exe setup `,
  );
  expect(page).toContain('This server offers no package of the tray app.');
  expect(empty).toContain('This server offers no executable.');
  expect(empty).toContain('<code>npm run sea</code>');
});
