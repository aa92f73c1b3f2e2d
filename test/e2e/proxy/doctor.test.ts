import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { strFromU8, unzipSync } from 'fflate';
import { expect, test } from 'vitest';
import { authority } from '#support/certificates';
import { connectProxy } from '#support/connect-proxy';
import { keychainSession } from '#support/keychain-session';
import { runProgram } from '#support/processes';
import { launcher } from '#support/proxy-process';
import { sseServer } from '#support/sse-server';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { tlsServer } from '#support/tls-server';
import { fileSecretStore } from '#proxy/keychain/file-secret-store';
import { apiKeyAccount } from '#proxy/keychain/secret-accounts';

type Finding = { check: string; state: string; what: string; hint?: string };

const secrets = {
  client: 'planted-client-secret',
  token: 'planted-access-token',
  header: 'planted-header-value',
  query: 'planted-query-value',
  passphrase: 'planted-passphrase',
  proxy: 'planted-proxy-password',
};

/** A company's MCP server with an authorization server of its own, and a folder for its user. */
async function company() {
  const root = await authority('Company Root');
  const folder = await temporaryFolder();
  const caFile = join(folder.path, 'root.pem');
  await writeFile(caFile, root.cert);
  const hosts = ['mcp.company.test'];
  const server = await tlsServer(await root.issue('mcp', { hosts }), (request, response, body) => {
    const base = `https://mcp.company.test:${server.port}`;
    const json = (value: object) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const path = request.url?.split('?')[0] ?? '';
    if (path.startsWith('/.well-known/oauth-protected-resource'))
      return json({ resource: `${base}/mcp`, authorization_servers: [base] });
    if (path === '/.well-known/oauth-authorization-server')
      return json({ issuer: base, token_endpoint: `${base}/token` });
    if (path === '/token')
      return json({ access_token: secrets.token, token_type: 'Bearer', expires_in: 600 });
    if (request.headers.authorization !== `Bearer ${secrets.token}`)
      return response.writeHead(401).end();
    const { id, method }: { id: unknown; method: string } = JSON.parse(body.toString());
    if (method !== 'initialize')
      return json({ jsonrpc: '2.0', id, error: { code: -32601, message: `no ${secrets.token}` } });
    return json({
      jsonrpc: '2.0',
      id,
      result: { protocolVersion: '2025-06-18', serverInfo: { name: 'Sales', version: '1' } },
    });
  });
  const config = join(folder.path, 'mcp.json');
  const entry = {
    url: `https://mcp.company.test:${server.port}/mcp?tenant=${secrets.query}`,
    headers: { 'x-team': secrets.header },
    oauth: { clientId: 'client_sales', clientSecret: secrets.client },
  };
  await writeFile(config, JSON.stringify({ mcpServers: { sales: entry } }));
  return {
    folder,
    env: {
      HOME: folder.path,
      LATCHKEY_STATE_DIR: join(folder.path, 'state'),
      LATCHKEY_CONFIG: config,
      LATCHKEY_CA_FILE: caFile,
      LATCHKEY_CLIENT_KEY_PASSPHRASE: secrets.passphrase,
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const doctor = async (env: Record<string, string>, ...args: string[]) =>
  runProgram(process.execPath, { args: [launcher, 'doctor', ...args], env, timeoutMs: 50_000 });

const findingsOf = (stdout: string) => {
  const { checks }: { checks: Finding[] } = JSON.parse(stdout);
  return new Map(checks.map((finding) => [finding.check, finding]));
};

await suite('keychain', 'doctor with a keychain', () => {
  test('every passing check is listed, and the bundle contains none of the planted secrets', async () => {
    await using keyring = await keychainSession();
    await using sales = await company();
    await using proxy = await connectProxy(`dana:${secrets.proxy}`);
    const file = join(sales.folder.path, 'bundle.zip');
    const env = {
      ...keyring.env,
      ...sales.env,
      HTTPS_PROXY: `http://dana:${secrets.proxy}@${proxy.host}`,
    };

    // The first run puts a token into the keychain, which the second reads.
    await doctor(env, 'sales');
    const { stdout, stderr, code } = await doctor(env, 'sales', '--json', '--bundle', file);
    const zip = unzipSync(await readFile(file));
    const bundled = Object.values(zip).map((bytes) => strFromU8(bytes));

    expect(code).toBe(0);
    const found = findingsOf(stdout);
    expect([...found.values()].filter(({ state }) => state === 'fail')).toEqual([]);
    const said = (check: string) => found.get(check)?.what;
    expect(said('proxy')).toBe(`http://${proxy.host}, by HTTPS_PROXY`);
    expect(said('tls')).toMatch(/issued by Company Root, until .* trusted by --ca-file/);
    expect(said('discovery')).toContain('named by the server');
    expect(said('token')).toMatch(/of a client: for \d+ more minutes; renewed automatically/);
    expect(said('endpoint')).toBe('Sales speaks MCP 2025-06-18');
    expect(said('keychain')).toBe('os: stores, reads and removes a secret');
    expect(Object.keys(zip)).toEqual(
      ['versions', 'configuration', 'checks'].map((name) => `latchkey-doctor/${name}.json`),
    );
    for (const secret of Object.values(secrets))
      expect(bundled.join('') + stdout + stderr).not.toContain(secret);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await doctor(env, 'sales', '--bundle', file)).toMatchObject({ code: 2 });
  });
});

test('doctor: failures have a remedy, the other checks still run, and the exit code is 1', async () => {
  await using folder = await temporaryFolder();
  const env = {
    HOME: folder.path,
    XDG_RUNTIME_DIR: folder.path,
    DBUS_SESSION_BUS_ADDRESS: `unix:path=${folder.path}/none`,
    LATCHKEY_STATE_DIR: '/dev/null/state',
    LATCHKEY_API_KEY: 'mcp_planted_0123456789',
  };

  const { stdout, code } = await doctor(env, 'https://127.0.0.1:9/mcp', '--json');
  const found = findingsOf(stdout);

  expect(code).toBe(1);
  for (const check of ['state', 'keychain', 'tcp', 'server', 'endpoint'])
    expect(found.get(check)).toMatchObject({ state: 'fail', hint: expect.stringMatching(/./) });
  expect(found.get('dns')?.state).toBe('ok');
  expect(stdout).not.toContain('planted');
});

test('doctor: an HTTP+SSE server is recognized, though its URL accepts no messages', async () => {
  await using folder = await temporaryFolder();
  await using server = await sseServer({
    answer: ({ id }) => ({
      id,
      result: { protocolVersion: '2024-11-05', serverInfo: { name: 'Attic', version: '1' } },
    }),
  });
  const env = {
    HOME: folder.path,
    LATCHKEY_SECRET_STORE: 'memory',
    LATCHKEY_STATE_DIR: folder.path,
    LATCHKEY_API_KEY: 'mcp_planted_0123456789',
  };

  const known = findingsOf((await doctor(env, server.url.href, '--json')).stdout);
  const other = findingsOf((await doctor(env, `${server.origin}/nothing`, '--json')).stdout);

  expect(known.get('server')).toMatchObject({
    state: 'ok',
    what: 'answers 404 to a message, and has the stream of HTTP+SSE, of 2024-11-05',
  });
  expect(known.get('endpoint')).toMatchObject({
    state: 'ok',
    what: 'Attic speaks MCP 2024-11-05 over HTTP+SSE',
  });
  expect(other.get('server')).toMatchObject({
    state: 'fail',
    hint: 'that is not an MCP endpoint; check the URL',
  });
  expect(other.get('endpoint')).toMatchObject({ state: 'fail' });
});

test('doctor: without a name it checks the computer and every configured connection', async () => {
  await using folder = await temporaryFolder();
  const config = join(folder.path, 'mcp.json');
  const entries = { good: { url: 'https://a.example/mcp' }, bad: { url: 'http://a.example/mcp' } };
  await writeFile(config, JSON.stringify({ mcpServers: entries }));
  await writeFile(join(folder.path, '.claude.json'), '{"lastOnboardingVersion":"2.3.4"}');
  const env = {
    HOME: folder.path,
    LATCHKEY_CONFIG: config,
    LATCHKEY_SECRET_STORE: 'memory',
    LATCHKEY_STATE_DIR: folder.path,
  };

  const { stdout, code } = await doctor(env);

  expect(code).toBe(1);
  expect(stdout).toMatch(/^ok {4}assistants {5}Claude Code 2\.3\.4: /m);
  expect(stdout).toMatch(/^ok {4}configuration {2}good, by /m);
  expect(stdout).toMatch(
    /^fail {2}configuration {2}.*enter an https URL.*\n +hint: fix the configuration/m,
  );
});

test('doctor: without a name it finds sign-ins and keys that are gone, and a key file that opens nothing', async () => {
  await using folder = await temporaryFolder();
  const config = join(folder.path, 'mcp.json');
  const url = (name: string) => `https://${name}.example/mcp`;
  const entries = {
    library: { url: url('library') },
    wiki: { url: url('wiki'), apiKey: 'keychain' },
    sales: { url: url('sales'), headers: { 'x-team': 'keychain' } },
  };
  await writeFile(config, JSON.stringify({ mcpServers: entries }));
  const keyFile = async (name: string) => {
    const path = join(folder.path, name);
    await writeFile(path, name.repeat(40), { mode: 0o600 });
    return path;
  };
  const env = {
    HOME: folder.path,
    LATCHKEY_CONFIG: config,
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_SECRET_STORE_KEY_FILE: await keyFile('key'),
    LATCHKEY_STATE_DIR: join(folder.path, 'state'),
  };
  const store = fileSecretStore({
    directory: join(folder.path, 'state', 'secrets'),
    keyFile: env.LATCHKEY_SECRET_STORE_KEY_FILE,
    platform: process.platform,
  });
  await store.set(apiKeyAccount({ url: url('wiki') }), 'mcp_key');

  const right = await doctor(env);
  const other = await doctor({ ...env, LATCHKEY_SECRET_STORE_KEY_FILE: await keyFile('other') });

  expect(right.code).toBe(1);
  expect(right.stdout).toMatch(
    /^warn {2}secrets {8}library: not signed in\n.*latchkey login library/m,
  );
  expect(right.stdout).toMatch(/^ok {4}secrets {8}wiki: ready$/m);
  expect(right.stdout).toMatch(/^fail {2}secrets {8}sales: a secret is missing in the keychain$/m);
  expect(right.stdout).toContain(
    'not checked: the servers of library, wiki, sales; run latchkey doctor NAME\n',
  );
  expect(other.code).toBe(1);
  expect(other.stdout).toMatch(
    /^fail {2}secrets {8}wiki: the key file .*other is not the one that the stored secrets were sealed with\n +hint: put the right key file back/m,
  );
});
