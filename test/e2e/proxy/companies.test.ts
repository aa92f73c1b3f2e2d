import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { authority, sealed, selfSigned, type Authority } from '#support/certificates';
import { connectProxy } from '#support/connect-proxy';
import { proxyProcess } from '#support/proxy-process';
import { recordingUpstream } from '#support/upstreams/recording-upstream';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { tlsServer } from '#support/tls-server';

let company: Authority;
let folder: TemporaryFolder;
const file = async (name: string, content: string) => {
  const path = join(folder.path, name);
  await writeFile(path, content);
  return path;
};
beforeAll(async () => {
  company = await authority('Company Root');
  folder = await temporaryFolder();
  await file('root.pem', company.cert);
});
afterAll(() => folder[Symbol.asyncDispose]());

const root = () => join(folder.path, 'root.pem');
const start = (url: string, env: Record<string, string> = {}, args: string[] = []) =>
  proxyProcess({ args: [url, ...args], env: { LATCHKEY_API_KEY: 'mcp_0123', ...env } });
const trusting = (env: Record<string, string> = {}) => ({ LATCHKEY_CA_FILE: root(), ...env });

test('HTTP proxy: an https server is reached through a CONNECT proxy that requires credentials', async () => {
  await using server = await tlsServer(await company.issue('mcp', { hosts: ['mcp.company.test'] }));
  await using proxy = await connectProxy('dana:s3cret w0rd');
  const HTTPS_PROXY = `http://dana:s3cret%20w0rd@${proxy.host}`;
  await using client = start(
    `https://mcp.company.test:${server.port}/mcp`,
    trusting({ HTTPS_PROXY, LATCHKEY_LOG_LEVEL: 'debug' }),
  );

  const { result } = await client.request('tools/list');
  await client.request('tools/list');

  expect(result).toMatchObject({ tools: [{ name: 'echo' }, { name: 'secret' }] });
  expect(proxy.asked).toEqual([`CONNECT mcp.company.test:${server.port}`]);
  expect(client.stderr()).not.toContain('s3cret');
});

test('HTTP proxy: a rejected password is an error that names the proxy and the variable, not the password', async () => {
  await using proxy = await connectProxy('dana:right');
  await using client = start('https://mcp.company.test/mcp', {
    HTTPS_PROXY: `http://dana:wr0ng-password@${proxy.host}`,
  });

  const { error } = await client.request('tools/call', { name: 'x' });

  expect(error?.message).toMatch(/the company proxy http:\/\/127\.0\.0\.1:\d+ rejected the user/);
  expect(error?.message).toContain('correct them in HTTPS_PROXY');
  expect(JSON.stringify(error) + client.stderr()).not.toContain('wr0ng');
});

test('HTTP proxy: one that refuses or is absent is an error of its own, and its 401 is not the server’s', async () => {
  const proxy = await connectProxy();
  await using client = start('https://mcp.company.test/mcp', {
    https_proxy: `http://${proxy.host}`,
  });
  proxy.refuse = 401;
  const refused = await client.request('tools/call', { name: 'x' });
  await proxy[Symbol.asyncDispose]();
  const gone = await client.request('tools/call', { name: 'x' });

  expect(refused.error?.message).toContain('refused to connect to mcp.company.test:443: 401');
  expect(refused.error?.message).toContain('NO_PROXY');
  expect(gone.error?.message).toMatch(
    /cannot reach the company proxy .* \(https_proxy\): .*check https_proxy/,
  );
});

test('HTTP proxy: loopback is reached directly unless --proxy is given', async () => {
  await using server = await recordingUpstream();
  await using proxy = await connectProxy();
  await using direct = start(server.url, { HTTP_PROXY: `http://${proxy.host}` });
  await using asked = start(server.url, {}, ['--proxy', `http://${proxy.host}`]);

  expect((await direct.request('tools/list')).error).toBeUndefined();
  expect(proxy.asked).toEqual([]);
  expect((await asked.request('tools/list')).error).toBeUndefined();
  expect(proxy.asked).toEqual([`POST ${server.url}`]);
  expect(server.requests.at(-1)?.headers).toMatchObject({ host: new URL(server.url).host });
});

test.each(['LATCHKEY_CA_FILE', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'])(
  'TLS: a company’s certificate authority is trusted by %s',
  async (variable) => {
    await using server = await tlsServer(await company.issue('mcp'));
    await using client = start(`https://127.0.0.1:${server.port}/mcp`, { [variable]: root() });

    expect((await client.request('tools/list')).error).toBeUndefined();
    expect(server.requests).toEqual(['POST /mcp']);
  },
);

test('TLS: an untrusted certificate is explained with a remedy, and nothing is sent', async () => {
  const past = { notBefore: new Date(Date.now() - 9e8), notAfter: new Date(Date.now() - 8e8) };
  const future = { notBefore: new Date(Date.now() + 8e8) };
  const cases = [
    [await company.issue('mcp'), {}, 'authority that this computer does not trust', '--ca-file'],
    [await selfSigned(), trusting(), 'self-signed', '--ca-file'],
    [await company.issue('mcp', past), trusting(), 'has expired', 'clock'],
    [await company.issue('mcp', future), trusting(), 'not valid yet', 'clock'],
    [
      await company.issue('mcp', { hosts: ['other.test'] }),
      trusting(),
      'for another host (DNS:other.test)',
      'check the host',
    ],
  ] as const;
  for (const [certificate, env, problem, remedy] of cases) {
    await using server = await tlsServer(certificate);
    await using client = start(`https://127.0.0.1:${server.port}/mcp`, env);
    const { error } = await client.request('tools/list');

    expect(error?.message).toContain(problem);
    expect(error?.message).toContain(remedy);
    expect(server.requests).toEqual([]);
  }
});

test('TLS: a server that requires a client certificate gets it, its key decrypted with the passphrase', async () => {
  const { cert, key } = await company.issue('Dana');
  const clientArgs = [
    `--client-certificate-file=${await file('dana.pem', cert)}`,
    `--client-key-file=${await file('dana.key', sealed(key, 'open sesame'))}`,
  ];
  await using server = await tlsServer({
    ...(await company.issue('mcp')),
    ca: company.cert,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const url = `https://127.0.0.1:${server.port}/mcp`;
  await using known = start(
    url,
    trusting({ LATCHKEY_CLIENT_KEY_PASSPHRASE: 'open sesame' }),
    clientArgs,
  );
  await using locked = start(url, trusting(), clientArgs);
  await using unknown = start(url, trusting());

  expect((await known.request('tools/list')).error).toBeUndefined();
  expect((await locked.request('tools/list')).error?.message).toContain(
    'LATCHKEY_CLIENT_KEY_PASSPHRASE',
  );
  expect((await unknown.request('tools/list')).error?.message).toContain(
    '--client-certificate-file',
  );
  expect(server.requests).toHaveLength(1);
});

test('HTTP proxy: discovery and token requests use it too, with the company’s certificate authority', async () => {
  await using proxy = await connectProxy();
  await using server = await tlsServer(
    await company.issue('mcp', { hosts: ['mcp.company.test', 'login.company.test'] }),
    (request, response, body) => {
      const base = `https://mcp.company.test:${server.port}`;
      const issuer = `https://login.company.test:${server.port}`;
      const json = (value: object) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      switch (request.url) {
        case '/.well-known/oauth-protected-resource/mcp':
          return json({ resource: `${base}/mcp`, authorization_servers: [issuer] });
        case '/.well-known/oauth-authorization-server':
          return json({ issuer, token_endpoint: `${issuer}/token` });
        case '/token':
          return json({ access_token: 'token-of-dana', token_type: 'Bearer', expires_in: 600 });
        case undefined:
        default:
          if (request.headers.authorization !== 'Bearer token-of-dana')
            return response.writeHead(401).end();
          return json({ jsonrpc: '2.0', id: JSON.parse(body.toString()).id, result: {} });
      }
    },
  );
  const oauth = { clientId: 'client_1', clientSecret: 'secret-of-client' };
  await using client = start(
    `https://mcp.company.test:${server.port}/mcp`,
    trusting({
      LATCHKEY_API_KEY: '',
      LATCHKEY_OAUTH: JSON.stringify(oauth),
      LATCHKEY_SECRET_STORE: 'memory',
      HTTPS_PROXY: `http://${proxy.host}`,
    }),
  );

  expect((await client.request('ping')).result).toEqual({});
  expect(new Set(proxy.asked)).toEqual(
    new Set(['mcp', 'login'].map((host) => `CONNECT ${host}.company.test:${server.port}`)),
  );
});
