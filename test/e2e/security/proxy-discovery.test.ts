import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { authority, type Authority } from '#support/certificates';
import { connectProxy, type ConnectProxy } from '#support/connect-proxy';
import { countedServer, type CountedServer } from '#support/counted-server';
import { desktop } from '#support/desktop';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { tlsServer, type TlsServer } from '#support/tls-server';

/** What a remote server says, where it differs from what an honest one would. */
interface Lie {
  resourceMetadata?: string;
  redirectedMetadata?: string;
  issuer?: string;
  metadata?: Record<string, string>;
  redirectedToken?: string;
}

let company: Authority;
let folder: TemporaryFolder;
/** Servers that only this machine can reach, over http and over https. */
let inner: CountedServer;
let innerTls: TlsServer;
let remote: TlsServer;
/** Leads every name to the remote server, as the internet would. */
let internet: ConnectProxy;
let lie: Lie = {};

const host = 'mcp.company.test';
const origin = () => `https://${host}:${remote.port}`;
const url = () => `${origin()}/mcp`;

beforeAll(async () => {
  company = await authority('Company Root');
  folder = await temporaryFolder('discovery');
  await writeFile(join(folder.path, 'root.pem'), company.cert);
  inner = await countedServer((_, response) => response.end('{}'));
  innerTls = await tlsServer(await company.issue('inner'));
  internet = await connectProxy();
  remote = await tlsServer(await company.issue('mcp', { hosts: [host] }), (request, response) => {
    const send = (value: object) => response.end(JSON.stringify(value));
    const redirect = (location: string) => response.writeHead(307, { location }).end();
    switch (request.url ?? '') {
      case '/prm':
        if (lie.redirectedMetadata !== undefined) return redirect(lie.redirectedMetadata);
        return send({ resource: url(), authorization_servers: [lie.issuer ?? origin()] });
      case '/.well-known/oauth-authorization-server':
        return send({
          issuer: origin(),
          token_endpoint: `${origin()}/token`,
          authorization_endpoint: `${origin()}/authorize`,
          registration_endpoint: `${origin()}/register`,
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['client_secret_basic'],
          ...lie.metadata,
        });
      case '/token':
        if (lie.redirectedToken !== undefined) return redirect(lie.redirectedToken);
        return send({ access_token: 'token', token_type: 'Bearer', expires_in: 60 });
      default: {
        const metadata = lie.resourceMetadata ?? `${origin()}/prm`;
        const challenge = `Bearer resource_metadata="${metadata}"`;
        return response.writeHead(401, { 'www-authenticate': challenge }).end();
      }
    }
  });
});
afterAll(async () => {
  for (const one of [internet, remote, innerTls, inner, folder]) await one[Symbol.asyncDispose]();
});

async function login(said: Lie, oauth: object) {
  lie = said;
  await using machine = await desktop({
    HTTPS_PROXY: `http://${internet.host}`,
    LATCHKEY_CA_FILE: join(folder.path, 'root.pem'),
    LATCHKEY_OAUTH: JSON.stringify(oauth),
  });
  return await machine.run('login', url());
}

const robot = { clientId: 'client_1', clientSecret: 'a secret' };
const here = () => `https://127.0.0.1:${innerTls.port}`;

test('100: discovery: a remote server that names remote URLs can be signed in to', async () => {
  const { code, stdout } = await login({}, robot);

  expect(code).toBe(0);
  expect(stdout).toContain(`at ${origin()}`);
});

test.each<[string, () => Lie, object]>([
  ['resource_metadata over http', () => ({ resourceMetadata: `${inner.origin}/secret` }), robot],
  [
    'resource_metadata by the name localhost',
    () => ({ resourceMetadata: `${inner.origin.replace('127.0.0.1', 'localhost')}/secret` }),
    robot,
  ],
  ['resource_metadata over https', () => ({ resourceMetadata: `${here()}/secret` }), robot],
  [
    'resource_metadata in a private network',
    () => ({ resourceMetadata: 'https://10.1.2.3/secret' }),
    robot,
  ],
  ['a redirect of its metadata', () => ({ redirectedMetadata: `${here()}/secret` }), robot],
  ['authorization_servers', () => ({ issuer: here() }), robot],
  ['token_endpoint', () => ({ metadata: { token_endpoint: `${here()}/token` } }), robot],
  ['a redirect of its token endpoint', () => ({ redirectedToken: `${here()}/token` }), robot],
  [
    'registration_endpoint',
    () => ({ metadata: { registration_endpoint: `${here()}/register` } }),
    {},
  ],
  [
    'revocation_endpoint',
    () => ({ metadata: { revocation_endpoint: `https://localhost:${innerTls.port}/revoke` } }),
    robot,
  ],
  ['userinfo_endpoint', () => ({ metadata: { userinfo_endpoint: `${here()}/me` } }), robot],
  [
    'authorization_endpoint',
    () => ({ metadata: { authorization_endpoint: 'https://192.168.1.1/reboot' } }),
    {},
  ],
])(
  '100: discovery: a remote server’s %s that leads inside is never requested',
  async (_, said, oauth) => {
    const before = internet.asked.length;

    const { code, stderr } = await login(said(), oauth);

    expect(code).toBe(1);
    expect(stderr).toMatch(/was not contacted|contains no metadata|answered 307/);
    expect(inner.lines()).toEqual([]);
    expect(innerTls.requests).toEqual([]);
    const places = internet.asked.slice(before).filter((line) => !line.includes(host));
    expect(places).toEqual([]);
  },
);

test('100: discovery: an issuer entered by the user may be inside', async () => {
  const { stderr } = await login({ issuer: here() }, { ...robot, issuer: here() });

  expect(stderr).not.toContain('was not contacted');
  expect(innerTls.requests[0]).toBe('GET /.well-known/oauth-authorization-server');
});
