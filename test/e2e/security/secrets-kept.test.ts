import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { acmeServer, basic, bearer } from '#support/acme-server';
import { runProgram } from '#support/processes';
import { rawHttp } from '#support/raw-http';
import { launcher } from '#support/running-server';
import { spellings } from '#support/spellings';
import { temporaryFolder } from '#support/temporary-folder';
import { webhookReceiver } from '#support/webhook-receiver';

/*
 * One run at the most talkative level, in which every kind of secret is used as it should be, and sent
 * to every place where it should not be. Afterwards everything that the server wrote is searched.
 */
const server = await acmeServer({
  args: [
    '--demo',
    '--show-demo-credentials',
    '--log-level',
    'debug',
    '--outbound-host',
    '127.0.0.1',
  ],
});
afterAll(() => server[Symbol.asyncDispose]());
const banner = server.program.stdout;
const commandErrors: string[] = [];
const commandAnswers: string[] = [];
/** Values of fixed headers, as an upstream gave them to an administrator: of no shape that anybody could know. */
const headerValues = ['Zq81-first-value-of-a-fixed-header', 'Zq82-other-value-of-a-fixed-header'];
const made = z.object({ id: z.string(), secret: z.string() });

const usable = bearer(await server.token(await server.client()));

beforeAll(async () => {
  const client = await server.client();
  const { key, id: keyId } = await server.key();
  await server.command('agent', 'create', 'acme/inside');
  await using receiver = await webhookReceiver();
  receiver.answer({ status: 500 });
  const url = `${receiver.origin}/in`;
  const hook = ['--url', url, '--outbound-host', '127.0.0.1'];
  const webhook = made.parse(await server.command('webhook', 'create', 'acme', ...hook));
  await receiver.has(1);
  const authorization = basic(client.id, client.secret);
  const token = await server.token(client);
  const revoked = await server.token(client);
  const revocation = { token: revoked, client_id: client.id, client_secret: client.secret };
  await server.post('/api/oauth/revoke', revocation);

  await setHeaders();
  await server.call(bearer(token));
  await server.call(bearer(revoked));
  await server.call({ 'X-API-Key': key }, 'tools/call', { name: 'echo', arguments: { key } });
  await server.post('/api/oauth/token', { grant_type: 'client_credentials' }, authorization);

  const secrets = [...server.issued];
  const forms = secrets.flatMap((secret) => [secret, `x${secret}.x`]);
  for (const secret of [...forms, `${client.id}:${client.secret}`]) await misuse(secret);
  for (const secret of [client.secret, token]) {
    await mistype(['client', 'revoke', secret]);
    await mistype(['key', 'revoke', `x${secret}`]);
    await mistype(['client', 'list', secret]);
    await mistype(['key', 'create', 'acme/fixture', '--name', 'n', '--scope', secret]);
    await mistype(['key', 'create', 'acme/fixture', '--name', 'n', `--${secret}`]);
    await mistype(['start', '--port', secret]);
    await mistype([secret]);
  }
  await mistype(['webhook', 'disable', 'acme', webhook.secret]);
  await mistype(['webhook', 'create', 'acme', '--url', webhook.secret]);
  await server.command('key', 'revoke', keyId);
  await server.call({ 'X-API-Key': key });
  await server.command('backup', join(server.dataDir, 'backup.db'));
});

test('85: secrets: no secret, key or token is in the database, its logs or its backup, in any spelling', () => {
  const files = filesOf(server.dataDir).filter((file) => !file.endsWith('master.key'));
  const names = files.map((file) => file.slice(server.dataDir.length + 1));

  expect(names).toEqual(expect.arrayContaining(['latchkey.db', 'latchkey.db-wal', 'backup.db']));
  expect(issuedKinds()).toEqual(['eyJ', 'mcp_', 'pk_live_', 'secret_', 'whsec_']);
  for (const file of files) expect(leaksIn(readFileSync(file))).toEqual([]);
});

test('86: fixed header: no command prints its value, not even the one that sets it', () => {
  const sent = server.upstream.received.flatMap(({ rawHeaders }) => rawHeaders);

  expect(sent).toContain(headerValues[1]);
  expect(commandAnswers.join('')).toContain('…ader');
  expect(leaksIn(Buffer.from(commandAnswers.join('')))).toEqual([]);
});

test('85: secrets: the search finds a secret that is there', () => {
  const [secret = ''] = server.issued;
  const inside = `{"a":"b${secret}"}`;

  expect(leaksIn(Buffer.from(inside))).toHaveLength(1);
  expect(leaksIn(Buffer.from(Buffer.from(inside).toString('base64')))).toHaveLength(1);
  expect(leaksIn(Buffer.from(Buffer.from(inside).toString('hex')))).toHaveLength(1);
});

test('85: master key: it is in its own file and nowhere else', () => {
  const master = readFileSync(join(server.dataDir, 'master.key'), 'utf8').trim();
  const sought = [...spellings(master), ...spellings(Buffer.from(master, 'base64url'))];
  const places = [
    ...filesOf(server.dataDir)
      .filter((file) => !file.endsWith('master.key'))
      .map((file) => readFileSync(file)),
    Buffer.from(server.program.stdout + server.program.stderr + commandErrors.join('')),
  ];

  expect(Buffer.from(master, 'base64url')).toHaveLength(32);
  for (const place of places) {
    expect(sought.filter((spelling) => place.includes(spelling))).toEqual([]);
  }
});

test('87: log: it contains no secret at debug level, whatever was sent', () => {
  const log = server.program.stderr;

  expect(log.split('\n').length).toBeGreaterThan(1000);
  expect(log).toContain('"msg":"request refused"');
  expect(log).toContain('"msg":"call refused"');
  expect(leaksIn(Buffer.from(log))).toEqual([]);
});

test('87: stdout: the demo’s secrets are printed at its first start, and never again', () => {
  expect(
    leaksIn(Buffer.from(banner))
      .map((secret) => secret.replace(/_.*/, '_'))
      .sort(),
  ).toEqual(['mcp_', 'secret_']);
  expect(leaksIn(Buffer.from(server.program.stdout.slice(banner.length)))).toEqual([]);
});

test('87: command line: no command repeats a secret that was passed by mistake', () => {
  expect(commandErrors.join('')).toContain('[redacted]');
  expect(leaksIn(Buffer.from(commandErrors.join('')))).toEqual([]);
});

/** Sets a fixed header and replaces its value, and types values where they do not belong. */
async function setHeaders(): Promise<void> {
  await using folder = await temporaryFolder();
  const set = ['server', 'set-header', 'acme/fixture', '--http-header-file'];
  const file = join(folder.path, 'value');
  for (const value of headerValues) {
    writeFileSync(file, `${value}\n`);
    commandAnswers.push(await server.commandText(...set, `X-Api-Key=${file}`));
    await mistype([...set, value]);
    await mistype([...set, `X-Api-Key=${value}`]);
    await mistype([...set, `X-Api-Key: ${value}=`]);
    await mistype([...set, `Host=${file}`]);
    writeFileSync(file, `${value}\n${value}\n`);
    await mistype([...set, `X-Api-Key=${file}`]);
  }
  commandAnswers.push(await server.commandText('server', 'list-headers', 'acme/fixture'));
}

/** Sends a secret wherever a confused client, or a person with a terminal, might. */
async function misuse(secret: string): Promise<void> {
  const inUrl = encodeURIComponent(secret);
  const mcp = '/mcp/acme/fixture';
  const paths = [
    `/api/oauth/token?client_secret=${inUrl}`,
    `${mcp}?access_token=${inUrl}`,
    `/.well-known/jwks.json?${inUrl}`,
    `/readyz?${inUrl}`,
    `/mcp/acme/${inUrl}`,
    `/mcp/${inUrl}/fixture`,
    `/.well-known/oauth-protected-resource/mcp/acme/${inUrl}`,
    `/${inUrl}`,
    `/%zz${inUrl}`,
  ];
  for (const path of paths) {
    await server.request(path, { headers: { Authorization: `Bearer ${secret}` } });
    await server.post(path, '');
  }

  const headers: Record<string, string>[] = [
    { Authorization: secret },
    { Authorization: `Bearer  ${secret}` },
    { Authorization: `Bearer ${secret} ${secret}` },
    { Authorization: `Digest username="${secret}"` },
    { Authorization: `Token ${secret}` },
    basic(secret, secret),
    { Authorization: `Basic ${secret}` },
    { 'X-API-Key': secret },
    { 'X-API-Key': secret, Authorization: `Bearer ${secret}` },
    { 'Api-Key': secret, Cookie: `token=${secret}`, 'X-Auth-Token': secret },
    { Origin: secret },
    { Origin: `https://${secret}.example` },
    { Referer: `https://a.example/?${secret}`, 'User-Agent': secret, 'X-Request-Id': secret },
    { 'X-Forwarded-For': secret, 'X-Forwarded-Host': secret, Forwarded: `for=${secret}` },
    { 'Mcp-Session-Id': secret },
    { 'MCP-Protocol-Version': secret },
    { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': secret, 'Mcp-Name': secret },
    { 'Content-Type': secret },
    { Accept: secret },
    { 'Last-Event-ID': secret, traceparent: secret },
  ];
  for (const header of headers) {
    await server.post('/api/oauth/token', { grant_type: 'client_credentials' }, header);
    await server.post('/api/oauth/revoke', { token: secret }, header);
    await server.call(header);
    await server.call({ ...usable, ...header });
  }

  const parameters = ['grant_type', 'client_id', 'client_secret', 'scope', 'resource', 'token'];
  const bodies = [
    ...parameters.map((name) => `grant_type=client_credentials&${name}=${inUrl}`),
    ...parameters.map((name) => new URLSearchParams({ client_id: 'c', [name]: secret }).toString()),
    `${inUrl}=1&${inUrl}=2`,
    `grant_type=client_credentials&client_id=c&client_secret=${inUrl}%00`,
    `grant_type=client_credentials&client_id=c&client_secret=${inUrl}%`,
    `{"client_secret":"${secret}"`,
  ];
  for (const body of bodies) {
    await server.post('/api/oauth/token', body);
    await server.post('/api/oauth/revoke', body, { 'Content-Type': 'application/json' });
    await server.post('/api/oauth/revoke', body);
  }

  const calls: [string, object?][] = [
    [secret],
    ['tools/list', { [secret]: secret }],
    ['tools/call', { name: secret, arguments: { secret } }],
    ['subscriptions/listen', { notifications: { [secret]: true } }],
    ['subscriptions/listen', { notifications: secret }],
    ['resources/read', { uri: `file:///${secret}` }],
    ['tools/call', { name: 'x', _meta: { 'io.modelcontextprotocol/protocolVersion': secret } }],
  ];
  for (const [method, params] of calls) await server.call(usable, method, params);
  const messages = [
    secret,
    `{"jsonrpc":"2.0","id":1,"method":"${secret}`,
    `{"jsonrpc":"2.0","id":1,"id":1,"${secret}":1,"${secret}":2,"method":"x"}`,
    `{"jsonrpc":"2.0","id":"${secret}","method":"nothing"}`,
    `{"jsonrpc":"${secret}","id":1,"method":"ping"}`,
    `["${secret}"]`,
    `{"jsonrpc":"2.0","id":1,"result":"${secret}"}`,
  ];
  for (const body of messages) {
    const init = { method: 'POST', body };
    await server.request(mcp, {
      ...init,
      headers: { ...usable, 'Content-Type': 'application/json' },
    });
    await server.request(mcp, { ...init, headers: { 'Content-Type': 'application/json' } });
  }

  const raw = [
    `GET /${secret} HTTP/1.1\r\nHost: ${secret}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\0\r\n\r\n`,
    `${secret} / HTTP/1.1\r\n\r\n`,
    `GET /${secret} HTTP/7.7\r\n\r\n`,
    `POST ${mcp} HTTP/1.1\r\nHost: a\r\nContent-Length: ${secret}\r\n\r\n`,
    `GET / HTTP/1.1\r\nX: ${secret.padEnd(20_000, 'x')}\r\n\r\n`,
  ];
  await Promise.all(
    raw.map((bytes) => rawHttp(server.port, bytes.replace('\r\n', '\r\nConnection: close\r\n'))),
  );
}

/** Gives a command a secret where it takes none. */
async function mistype(words: readonly string[]): Promise<void> {
  const args = [launcher, ...words, '--data-dir', server.dataDir];
  const { code, stdout, stderr } = await runProgram(process.execPath, { args });
  expect(code).toBeGreaterThan(0);
  commandErrors.push(stdout, stderr);
}

/** Which of the issued secrets are in `bytes`; a JWT also counts when only its signature is. */
function leaksIn(bytes: Buffer): string[] {
  return [...server.issued, ...headerValues].filter((secret) =>
    [secret, secret.split('.')[2] ?? secret]
      .flatMap((text) => spellings(text))
      .some((spelling) => bytes.includes(spelling)),
  );
}

function issuedKinds(): string[] {
  const kinds = [...server.issued].map((secret) => /^(?:eyJ|[a-z_]+_)/.exec(secret)?.[0] ?? '');
  return [...new Set(kinds)].sort();
}

function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((file) => statSync(file).isFile());
}
