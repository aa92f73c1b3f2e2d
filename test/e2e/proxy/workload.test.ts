import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { bodyOf, countedServer } from '#support/counted-server';
import { legacyMcp } from '#support/legacy-mcp';
import { inherited } from '#support/programs';
import { proxyProcess } from '#support/proxy-process';
import { serverProcess } from '#support/server-process';
import { temporaryFolder } from '#support/temporary-folder';

const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** A server that trusts a platform: it accepts the assertions in `trusted`, and issues tokens that `revoke` ends. */
async function trustingServer(trusted: Set<string>) {
  const { handle } = legacyMcp();
  const forms: URLSearchParams[] = [];
  const valid = new Set<string>();
  const server = await countedServer(async (request, response) => {
    const { origin } = server;
    const send = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(value));
    };
    const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
    if (request.url === new URL(metadata).pathname)
      return send(200, { resource: `${origin}/mcp`, authorization_servers: [origin] });
    if (request.url === '/.well-known/oauth-authorization-server')
      return send(200, {
        issuer: origin,
        token_endpoint: `${origin}/token`,
        grant_types_supported: [jwtBearer, 'client_credentials', 'refresh_token'],
      });
    if (request.url === '/token') {
      const form = new URLSearchParams(await bodyOf(request));
      forms.push(form);
      if (!trusted.has(form.get('assertion') ?? '')) return send(400, { error: 'invalid_grant' });
      const token = `token-${forms.length}`;
      valid.add(token);
      return send(200, { access_token: token, token_type: 'Bearer', expires_in: 3600 });
    }
    if (valid.has(request.headers.authorization?.replace(/^Bearer /, '') ?? ''))
      return handle(request, response);
    const challenge = `Bearer resource_metadata="${metadata}"`;
    return send(401, { error: 'invalid_token' }, { 'www-authenticate': challenge });
  });
  const url = `${server.origin}/mcp`;
  return Object.assign(server, { url, forms, revoke: () => valid.clear() });
}

/** A proxy on a machine without a keychain and a person. */
const workloadProxy = ({ url }: { url: string }, home: string, assertion: string) =>
  proxyProcess({
    args: [url],
    env: {
      ...inherited,
      HOME: home,
      LATCHKEY_STATE_DIR: home,
      LATCHKEY_SECRET_STORE: 'memory',
      LATCHKEY_ASSERTION: assertion,
    },
  });

test('workload: the token of its platform opens the server, and is read again when another one is there', async () => {
  const trusted = new Set(['jwt-1', 'jwt-2']);
  await using server = await trustingServer(trusted);
  await using folder = await temporaryFolder('workload');
  const file = join(folder.path, 'projected');
  writeFileSync(file, 'jwt-1\n');
  await using proxy = workloadProxy(server, folder.path, `file:${file}`);

  await proxy.handshake();
  const first = await proxy.request('tools/list');
  writeFileSync(file, 'jwt-2\n');
  server.revoke();
  const second = await proxy.request('tools/list');

  expect([first.error, second.error]).toEqual([undefined, undefined]);
  expect(server.forms.map((form) => form.get('assertion'))).toEqual(['jwt-1', 'jwt-2']);
  expect(server.forms.every((form) => !form.has('client_id'))).toBe(true);
});

test('workload: after a refusal, it neither repeats the assertion nor tries another grant, until there is a new one', async () => {
  const trusted = new Set<string>();
  await using server = await trustingServer(trusted);
  await using folder = await temporaryFolder('workload');
  const file = join(folder.path, 'projected');
  writeFileSync(file, 'jwt-refused');
  await using proxy = workloadProxy(server, folder.path, `file:${file}`);

  const handshake = await proxy.handshake();
  const again = await proxy.request('tools/list');
  const grants = server.forms.map((form) => form.get('grant_type'));
  trusted.add('jwt-new');
  writeFileSync(file, 'jwt-new');
  const opened = await proxy.handshake();

  expect(grants).toEqual([jwtBearer]);
  for (const { error } of [handshake, again]) {
    expect(error?.message).toContain('invalid_grant');
    expect(error?.message).toContain(`trusts the issuer, subject and audience of file:${file}`);
    expect(error?.message).not.toContain('jwt-refused');
  }
  expect(opened.error).toBeUndefined();
  expect(proxy.stderr()).not.toContain('jwt-');
});

test('workload: one that an organization trusts calls its server, and another one does not', async () => {
  await using folder = await temporaryFolder('workload');
  await using server = await serverProcess();
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwks = join(folder.path, 'jwks.json');
  const key = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256', use: 'sig' };
  writeFileSync(jwks, JSON.stringify({ keys: [key] }));
  await server.command(['organization', 'create', 'acme']);
  await server.command(['server', 'create', 'acme/sales', '--demo']);
  const issuer = 'https://ci.example.com';
  const rule = ['--issuer', issuer, '--subject', 'repo:acme/app', '--jwks', jwks];
  await server.command(['workload', 'create', 'acme/sales', '--name', 'Deploy', ...rule]);
  const file = join(folder.path, 'projected');
  const place = async (subject: string) => {
    const jwt = new SignJWT({ jti: subject }).setProtectedHeader({ alg: 'ES256', kid: 'k' });
    const claims = jwt.setIssuer(issuer).setSubject(subject).setAudience(server.base);
    const signed = await claims.setIssuedAt().setExpirationTime('5m').sign(privateKey);
    writeFileSync(file, signed);
  };
  const url = `${server.base}/mcp/acme/sales`;
  await using proxy = workloadProxy({ url }, folder.path, `file:${file}`);

  await place('repo:rival/app');
  const refused = await proxy.handshake();
  await place('repo:acme/app');
  const opened = await proxy.handshake();
  const { result } = await proxy.request('tools/list');

  expect(refused.error?.message).toContain('invalid_grant');
  expect(opened.error).toBeUndefined();
  expect(JSON.stringify(result)).toContain('"query"');
});
