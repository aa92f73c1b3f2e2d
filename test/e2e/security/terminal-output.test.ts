import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { insertAuditEvent } from '#server/db/audit';
import { createClient } from '#server/admin/create-credentials';
import { bodyOf, countedServer, type CountedServer } from '#support/counted-server';
import { desktop } from '#support/desktop';
import { grantingServer, launcher, type GrantingServer } from '#support/granting-server';
import { runProgram } from '#support/processes';

/** Clears the screen, names the window, turns a line around and begins another, in every way there is. */
const evil =
  'x\u001b]0;owned\u0007\u001b[2J\u007f\u009b2J\u202ey\u2066\u2028\u2029\r\nforged: line';
/** Line readers, such as that of these tests, take two of these characters for the end of a line. */
const tool = evil.replaceAll(/[\u2028\u2029]/g, '');
const acts = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

type Lie = 'resource' | 'issuer' | 'token' | 'registration' | 'account';
type Ran = { stdout: string; stderr: string };

/** What acts on a terminal, line ends of our own aside, and lines that somebody else made. */
function harm({ stdout, stderr }: Ran): string[] {
  return `${stdout}${stderr}`
    .split('\n')
    .filter((line) => acts.test(line) || line.startsWith('forged'));
}

describe('103: terminal output: control characters of a server, file or variable are escaped', () => {
  let server: CountedServer;
  let machine: Awaited<ReturnType<typeof desktop>>;
  /** Where the authorization server lies. */
  let lie: Lie = 'account';
  const url = () => `${server.origin}/mcp`;

  beforeAll(async () => {
    machine = await desktop();
    server = await countedServer(async (request, response) => {
      const { origin } = server;
      const at = new URL(request.url ?? '/', origin);
      const send = (status: number, value: object) => {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(value));
      };
      switch (at.pathname) {
        case '/prm': {
          const resource = lie === 'resource' ? evil : url();
          return send(200, { resource, authorization_servers: [origin], scopes_supported: [evil] });
        }
        case '/.well-known/oauth-authorization-server':
          return send(200, {
            issuer: lie === 'issuer' ? evil : origin,
            authorization_endpoint: `${origin}/authorize`,
            token_endpoint: `${origin}/token`,
            registration_endpoint: `${origin}/register`,
            userinfo_endpoint: `${origin}/userinfo`,
            code_challenge_methods_supported: ['S256'],
          });
        case '/register':
          return lie === 'registration'
            ? send(400, { error: evil })
            : send(201, { client_id: 'client_1' });
        case '/authorize': {
          const back = new URL(at.searchParams.get('redirect_uri') ?? '');
          back.searchParams.set('state', at.searchParams.get('state') ?? '');
          back.searchParams.set('code', 'c');
          return response.writeHead(303, { location: back.href }).end();
        }
        case '/token':
          return lie === 'token'
            ? send(400, { error: evil, error_description: evil })
            : send(200, {
                access_token: 'a-token',
                token_type: 'Bearer',
                expires_in: 3600,
                scope: evil,
              });
        case '/userinfo':
          return send(200, { email: evil });
        default: {
          if (request.headers.authorization !== 'Bearer a-token') {
            const challenge = `Bearer resource_metadata="${origin}/prm"`;
            return response.writeHead(401, { 'www-authenticate': challenge }).end();
          }
          const { id, method } = JSON.parse((await bodyOf(request)) || '{}');
          if (id === undefined) return response.writeHead(202).end();
          if (method === 'initialize') {
            const serverInfo = { name: tool, version: tool };
            const result = {
              protocolVersion: '2025-11-25',
              capabilities: { tools: {} },
              serverInfo,
            };
            return send(200, { jsonrpc: '2.0', id, result });
          }
          if (method === 'tools/list') {
            const tools = [{ name: tool, description: tool, inputSchema: { type: 'object' } }];
            return send(200, { jsonrpc: '2.0', id, result: { tools } });
          }
          return send(200, { jsonrpc: '2.0', id, error: { code: -32000, message: tool } });
        }
      }
    });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await machine[Symbol.asyncDispose]();
  });

  test.each<[Lie, RegExp]>([
    ['resource', /describes x\\u001b/],
    ['issuer', /calls itself "x\\u001b/],
    ['registration', /to the registration/],
    ['token', /no access token/],
  ])('103: a login that fails at its %s', async (where, said) => {
    lie = where;

    const login = await machine.run('login', url());

    expect(login.code).toBe(1);
    expect(harm(login)).toEqual([]);
    expect(login.stderr).toMatch(said);
  });

  test('103: a login that names the account and the scopes as the server does', async () => {
    lie = 'account';

    const login = await machine.run('login', url());

    expect(login.code).toBe(0);
    expect(harm(login)).toEqual([]);
    expect(login.stdout).toMatch(/^signed in as x\\u001b/m);
  });

  test('103: a proxy’s log, with every kind of entry', async () => {
    await using proxy = machine.proxyWith({ LATCHKEY_LOG_LEVEL: 'debug' }, { url: url() });
    await proxy.handshake();
    const { result } = await proxy.request('tools/list');
    await proxy.request('tools/call', { name: evil, arguments: {} });

    // The assistant gets the server's own bytes.
    expect(result).toMatchObject({ tools: [{ name: tool }] });
    expect(harm({ stdout: '', stderr: proxy.stderr() })).toEqual([]);
  });

  test.each<[string, (file: string) => string[], boolean]>([
    ['status', () => ['status', url()], false],
    ['status --json', () => ['status', url(), '--json'], true],
    ['tools', () => ['tools', url()], false],
    ['tools --json', () => ['tools', url(), '--json'], true],
    [
      'tools --accept of what is not there',
      () => ['tools', url(), '--accept', `no ${evil}`],
      false,
    ],
    ['doctor', () => ['doctor', url()], false],
    ['doctor --json', () => ['doctor', url(), '--json'], true],
    ['import --dry-run', (file) => ['import', file, '--dry-run'], false],
    ['import --dry-run --json', (file) => ['import', file, '--dry-run', '--json'], true],
    ['import of a file that is not there', () => ['import', `/nowhere/${evil}`], false],
    ['a configuration that names it', (file) => ['status', evil, '--config', file], false],
    ['a command that there is not', () => [evil], false],
    ['an option that there is not', () => ['status', `--${evil}`], false],
    ['an option’s value', () => ['status', '--log-level', evil], false],
    ['help about what there is not', () => ['help', evil], false],
  ])('103: %s', async (_, args, isJson) => {
    const file = join(machine.folder, 'mcp.json');
    const headers = { Authorization: 'Bearer abc' };
    const broken = { url: evil, apiKey: evil, oauth: { clientId: 7 } };
    const entries = { [evil]: { url: url(), headers }, [`other ${evil}`]: broken };
    await writeFile(file, JSON.stringify({ mcpServers: entries }));

    const ran = await machine.run(...args(file));

    expect(harm(ran)).toEqual([]);
    const text = isJson ? JSON.stringify(JSON.parse(ran.stdout)) : ran.stdout + ran.stderr;
    expect(text).not.toBe('');
  });

  test('103: an environment variable that an error quotes', async () => {
    await using other = await desktop({ LATCHKEY_OAUTH: `{"clientId":7,"${evil}":1}` });

    expect(harm(await other.run('login', url()))).toEqual([]);
  });
});

describe('103: terminal output of the server’s commands and exports', () => {
  let server: GrantingServer;
  const at = 1_800_000_000;

  beforeAll(async () => {
    server = await grantingServer();
    const { stores } = server;
    const clock = { now: () => at };
    const scopes = ['mcp:tools:read'] as const;
    const made = { name: evil, serverId: 'srv_sales', scopes, redirectUris: [], jwks: undefined };
    await createClient(made, { db: stores.db, clock });
    await insertAuditEvent(stores.db, {
      at,
      actor: `user:${evil}`,
      organization: 'acme',
      action: 'key.create',
      target: `=cmd ${evil}`,
      address: evil,
      requestId: evil,
      outcome: 'done',
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const run = (...args: string[]) =>
    runProgram(process.execPath, { args: [launcher, ...args, '--data-dir', server.dataDir] });

  test.each<[string, string[], boolean]>([
    ['client list', ['client', 'list', 'acme/sales'], true],
    ['client list --json', ['client', 'list', 'acme/sales', '--json'], true],
    ['audit list', ['audit', 'list', 'acme'], true],
    ['audit list --json', ['audit', 'list', 'acme', '--json'], true],
    ['audit export', ['audit', 'export', 'acme'], true],
    ['audit export --csv', ['audit', 'export', 'acme', '--csv'], true],
    ['an organization that there is not', ['client', 'list', evil], false],
    ['a name that may not be', ['organization', 'create', evil], false],
    ['an option that there is not', ['client', 'list', 'acme', `--${evil}`], false],
    ['a command that there is not', [evil, evil], false],
  ])('103: %s', async (_, args, succeeds) => {
    const ran = await run(...args);

    expect(harm(ran)).toEqual([]);
    expect(ran.code === 0).toBe(succeeds);
    expect(ran.stdout).toContain(succeeds ? String.raw`x\u001b]0;owned` : '');
    const whole: unknown = args.includes('--json') ? JSON.parse(ran.stdout) : ran.stdout;
    expect(JSON.stringify(whole).length).toBeGreaterThan(1);
  });

  test('103: a CSV cell is neither a formula nor a new line', async () => {
    const lines = await run('audit', 'export', 'acme');
    const { stdout } = await run('audit', 'export', 'acme', '--csv');

    // Each export is an event itself, and a heading stands above the table.
    const events = lines.stdout.trimEnd().split('\n').length;
    expect(stdout.trimEnd().split('\n')).toHaveLength(events + 2);
    expect(stdout).toContain(`"'=cmd`);
  });
});
