import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { startSession } from '#server/accounts/sessions';
import { insertUser } from '#server/db/people';
import { openSqlite } from '#server/db/sqlite/open-sqlite';
import { createClient } from '#server/admin/create-credentials';
import { cookieName } from '#server/web/page-request';
import { pkcePair } from '#support/authorization-server';
import { childrenOf, many, send, type SentRequest, statusesOf } from '#support/fresh-connections';
import { hiddenFields } from '#support/granting-server';
import { initialize, modern, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { runProgram } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { dualUpstream } from '#support/upstreams/dual-upstream';
import { modernUpstream } from '#support/upstreams/modern-upstream';
import { talkingUpstream } from '#support/upstreams/talking-upstream';

const made = z.object({ id: z.string(), key: z.string() });
const tokenAnswer = z.object({
  access_token: z.string().optional(),
  refresh_token: z.string().optional(),
  error: z.string().optional(),
});
const redirectUri = 'http://127.0.0.1/callback';
const accept = 'application/json, text/event-stream';
const listTools = modern('tools/list');

describe('several processes that share a data folder', () => {
  const stack = new AsyncDisposableStack();
  const { challenge, verifier } = pkcePair();
  let server: ServerProcess;
  let db: ReturnType<typeof openSqlite>['db'];
  let key: string;
  let sessionsKey: string;
  let cookie: string;
  let client: { id: string; secret: string };

  beforeAll(async () => {
    const upstream = stack.use(await modernUpstream('both'));
    const talking = stack.use(await talkingUpstream());
    const args = ['--processes', '3', '--trust-proxy', '127.0.0.1'];
    server = stack.use(await serverProcess({ args }));
    await server.command(['organization', 'create', 'acme']);
    await server.command(['server', 'create', 'acme/modern', '--http-url', upstream.url]);
    await server.command(['server', 'create', 'acme/talking', '--http-url', talking.url]);
    await server.command(['server', 'create', 'acme/library', '--demo']);
    key = (await createdKey('acme/modern', 'k')).key;
    sessionsKey = (await createdKey('acme/talking', 's')).key;
    ({ db } = openSqlite(join(server.dataDir, 'latchkey.db')));
    stack.defer(() => db.destroy());
    const now = Math.floor(Date.now() / 1000);
    const clock = { now: () => now };
    const { id: serverId, organization_id: organizationId } = await db
      .selectFrom('endpoint')
      .select(['id', 'organization_id'])
      .where('name', '=', 'modern')
      .executeTakeFirstOrThrow();
    const user = { id: 'user_dana', email: 'dana@example.com', createdAt: now };
    await insertUser(db, user, { organizationId, role: 'member' });
    const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'test' };
    const who = { userId: user.id, factors: 1 } as const;
    const { sessionToken } = await startSession(who, visit, { db, clock });
    cookie = `${cookieName('latchkey', server.base)}=${sessionToken}`;
    const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;
    const chosen = { name: 'app', serverId, scopes, redirectUris: [redirectUri], jwks: undefined };
    client = await createClient(chosen, { db, clock });
  });
  afterAll(() => stack.disposeAsync());

  const createdKey = async (at: string, name: string) =>
    made.parse(JSON.parse(await server.command(['key', 'create', at, '--name', name, '--json'])));
  const call = (
    credential: Readonly<Record<string, string>>,
    { at = 'modern', ...request }: { at?: string } & SentRequest = listTools,
  ) => {
    const { body, headers } = { ...listTools, ...request };
    return send(`${server.base}/mcp/acme/${at}`, { body, headers: { ...credential, ...headers } });
  };
  const callWithKey = (own = key) => call({ 'x-api-key': own });
  /** The numbers of the processes that answered requests of a route with success. */
  const processesAt = (route: string) => {
    const lines = server.program.stderr.split('\n');
    const answered = lines.filter((line) => line.includes(`"route":"${route}","status":200`));
    return new Set(answered.map((line) => /"process":(\d+)/.exec(line)?.[1]));
  };
  const post = async (fields: Record<string, string>) => {
    const { status, text } = await send(`${server.base}/api/oauth/token`, {
      body: new URLSearchParams(fields),
    });
    return { status, ...tokenAnswer.parse(JSON.parse(text)) };
  };
  const code = async () => {
    const query = new URLSearchParams({
      client_id: client.id,
      response_type: 'code',
      redirect_uri: redirectUri,
      scope: 'mcp:tools:read',
      code_challenge: challenge,
      code_challenge_method: 'S256',
    });
    const page = await send(`${server.base}/oauth/consent?${query.toString()}`, {
      headers: { cookie },
    });
    const decided = await send(`${server.base}/oauth/consent`, {
      headers: { cookie, origin: server.base },
      body: new URLSearchParams({
        ...hiddenFields(page.text, '/oauth/consent'),
        decision: 'allow',
      }),
    });
    return new URL(decided.headers.location ?? 'none:').searchParams.get('code') ?? '';
  };
  const redeem = (issued: string) =>
    post({
      grant_type: 'authorization_code',
      code: issued,
      code_verifier: verifier,
      client_id: client.id,
      redirect_uri: redirectUri,
    });
  const refresh = (token = '') =>
    post({ grant_type: 'refresh_token', refresh_token: token, client_id: client.id });

  test('each of them answers calls without a session, and token requests', async () => {
    const calls = await statusesOf(many(() => callWithKey()));
    const secrets = { client_id: client.id, client_secret: client.secret };
    const tokens = await statusesOf(
      many(() => post({ grant_type: 'client_credentials', ...secrets })),
    );

    expect({ calls, tokens }).toEqual({ calls: [200], tokens: [200] });
    await vi.waitFor(() => {
      expect(processesAt('/mcp/:organization/:server')).toEqual(new Set(['1', '2', '3']));
      expect(processesAt('/api/oauth/token')).toEqual(new Set(['1', '2', '3']));
    }, patient);
  });

  test('a call in a session, to a page and to what only one process has reaches the owner from each', async () => {
    const sessions = await many(() =>
      call(
        { 'x-api-key': sessionsKey },
        { at: 'talking', body: initialize(), headers: { accept } },
      ),
    );
    const ids = sessions.map(({ headers }) => String(headers['mcp-session-id']));
    const [session = ''] = ids;
    const headers = { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18', accept };
    const body = rpc('tools/list');
    const inSession = many(() =>
      call({ 'x-api-key': sessionsKey }, { at: 'talking', body, headers }),
    );
    const { key: libraryKey } = await createdKey('acme/library', 'l');

    expect(new Set(ids.map((id) => id.split('.')[0])).size).toBe(1);
    expect(await statusesOf(inSession)).toEqual([200]);
    expect(
      await statusesOf(many(() => call({ 'x-api-key': libraryKey }, { at: 'library' }))),
    ).toEqual([200]);
    expect(
      await statusesOf(many(() => send(`${server.base}/account`, { headers: { cookie } }))),
    ).toEqual([200]);
    expect(await statusesOf(many(() => send(`${server.base}/readyz`)))).toEqual([200]);
  });

  test('unknown keys and servers get the same answer from each', async () => {
    const unknown = { 'x-api-key': `mcp_${'0'.repeat(36)}` };

    const answers = await Promise.all(
      ['modern', 'library', 'nowhere'].map((at) => statusesOf(many(() => call(unknown, { at })))),
    );

    expect(answers).toEqual([[401], [401], [401]]);
  });

  test('the audit log has the address of the caller, whichever process it reached', async () => {
    const from = (at: number) => `203.0.113.${at}`;

    await many((at) =>
      send(`${server.base}/api/agents/connect`, {
        headers: { 'x-api-key': 'pk_live_wrong', 'x-forwarded-for': from(at) },
      }),
    );

    const logged = db
      .selectFrom('audit_event')
      .select('address')
      .where('action', '=', 'agent.connect')
      .orderBy('address');
    await vi.waitFor(async () => {
      const addresses = (await logged.execute()).map(({ address }) => address);
      expect(new Set(addresses)).toEqual(new Set(await many(async (at) => from(at))));
    }, patient);
  });

  test('35: authorization code: of many concurrent exchanges exactly one succeeds', async () => {
    const issued = await code();

    const all = await many(() => redeem(issued));

    expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test('36: refresh token: concurrent uses at all processes return one successor', async () => {
    let { refresh_token: token } = await redeem(await code());
    for (let round = 0; round < 10; round += 1) {
      const all = await many(() => refresh(token));
      const successors = new Set(all.map(({ refresh_token: next }) => next));
      expect(await statusesOf(Promise.resolve(all))).toEqual([200]);
      expect(successors.size).toBe(1);
      [token] = successors;
    }
  });

  test('34: authorization code: a second use revokes what the first one issued, at each process', async () => {
    const issued = await code();
    const { access_token: token = '', refresh_token: refreshToken } = await redeem(issued);
    const credential = { authorization: `Bearer ${token}` };
    expect(await statusesOf(many(() => call(credential)))).toEqual([200]);

    const again = await redeem(issued);

    expect(again).toMatchObject({ status: 400, error: 'invalid_grant' });
    expect(await statusesOf(many(() => call(credential)))).toEqual([401]);
    expect(await refresh(refreshToken)).toMatchObject({ error: 'invalid_grant' });
  });

  test('wrong client secrets are counted together', async () => {
    const wrong = () =>
      post({
        grant_type: 'client_credentials',
        client_id: 'client_unknown',
        client_secret: `secret_${'0'.repeat(36)}`,
      });
    for (let round = 0; round < 2; round += 1) await many(wrong);

    await vi.waitFor(async () => expect(await statusesOf(many(wrong))).toEqual([429]), patient);
  });

  test('a storm of revocations: no call that starts after the answer is admitted, and none fails', async () => {
    const keys: z.infer<typeof made>[] = [];
    for (let at = 0; at < 80; at += 1) keys.push(await createdKey('acme/modern', `storm ${at}`));
    const revoked = new Set<string>();
    const over = new AbortController();
    const wrong: string[] = [];
    const seen = { admitted: 0, refused: 0, other: [] as number[] };
    const callers = many(async (from) => {
      for (let at = from; !over.signal.aborted; at += 1) {
        const one = keys[(at * 7) % keys.length];
        if (!one) return;
        const wasRevoked = revoked.has(one.id);
        const { status } = await callWithKey(one.key);
        if (wasRevoked && status !== 401) wrong.push(`${one.id} ${status}`);
        if (status === 200) seen.admitted += 1;
        else if (status === 401) seen.refused += 1;
        else seen.other.push(status);
      }
    });

    for (const { id } of keys) {
      await server.command(['key', 'revoke', id]);
      revoked.add(id);
      // The other callers get time for calls, too.
      expect((await callWithKey()).status).toBe(200);
    }
    const last = await statusesOf(Promise.all(keys.map((one) => callWithKey(one.key))));
    over.abort();
    await callers;

    expect({ wrong, other: seen.other, last }).toEqual({ wrong: [], other: [], last: [401] });
    expect(Math.min(seen.admitted, seen.refused)).toBeGreaterThan(0);
  });

  test('a killed worker is replaced; no call that another process gets fails', async () => {
    const { program } = server;
    const [, victim = 0] = await childrenOf(program.pid);

    process.kill(victim, 'SIGKILL');

    await program.line(/"process":[23],"pauseMs":250,"msg":"a process ended/, { stream: 'stderr' });
    expect(await statusesOf(many(() => callWithKey()))).toEqual([200]);
    await vi.waitFor(async () => expect(await childrenOf(program.pid)).toHaveLength(3), patient);
  });

  test('while a killed owner starts again, the others answer calls and tokens, and 503 for what only it has', async () => {
    const { program } = server;
    const [victim = 0] = await childrenOf(program.pid);

    process.kill(victim, 'SIGKILL');

    await program.line(/"process":1,"pauseMs":250,"msg":"a process ended/, { stream: 'stderr' });
    const during = await many((at) =>
      at % 2 === 0 ? callWithKey() : send(`${server.base}/sign-in`),
    );
    const callsDuring = during.filter((_, at) => at % 2 === 0).map(({ status }) => status);
    const pagesDuring = during.filter((_, at) => at % 2 === 1);
    expect(new Set(callsDuring)).toEqual(new Set([200]));
    for (const { status, headers } of pagesDuring) {
      expect([status, headers['retry-after']]).toEqual(
        status === 503 ? [503, '1'] : [200, undefined],
      );
    }
    await vi.waitFor(
      async () =>
        expect(await statusesOf(many(() => send(`${server.base}/sign-in`)))).toEqual([200]),
      patient,
    );
  });

  test('one link for the first owner is printed, and SIGTERM ends all with 0', async () => {
    const { program } = server;
    expect(program.stdout).toMatch(/^listening on \S+ with 3 processes$/m);

    // Output closes when the last process that could write to it is gone.
    expect(await program.end()).toEqual({ code: 0, signal: null });
    expect(program.stdout.match(/\/set-up\//g) ?? []).toHaveLength(1);
    expect(program.stderr).not.toMatch(/SQLITE_BUSY|database is locked/);
  });
});

test('several processes that share a data folder: when the supervisor is killed, the others end, and the folder is free', async () => {
  await using server = await serverProcess({ args: ['--processes', '2'] });

  server.program.kill('SIGKILL');

  expect(await server.program.exited).toEqual({ code: null, signal: 'SIGKILL' });
  await server.restart();
});

test.each([[[]], [['--processes', '2']]])(
  'data folder: a second server with %j at another port is refused, and the first one continues',
  async (processes) => {
    await using server = await serverProcess();

    const refused = await runProgram(process.execPath, {
      args: [serverLauncher, 'start', '--port', '0', '--data-dir', server.dataDir, ...processes],
    });

    expect(refused).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`another server uses the data folder ${server.dataDir}\n`),
    });
    expect((await fetch(`${server.base}/readyz`)).status).toBe(200);
  },
);

test('several processes that share a data folder: SIGTERM lets calls of both eras finish, at each of them', async () => {
  const upstream = await dualUpstream();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => upstream.close());
  await using server = await serverProcess({ args: ['--processes', '3'] });
  await server.command(['organization', 'create', 'acme']);
  await server.command(['server', 'create', 'acme/slow', '--http-url', upstream.url]);
  const words = ['key', 'create', 'acme/slow', '--name', 'k', '--json'];
  const { key } = made.parse(JSON.parse(await server.command(words)));
  const params = { name: 'slow', arguments: { ms: 1000 } };
  const calls = many((at) => {
    const headers = { 'x-api-key': key, accept };
    const recent = modern('tools/call', params);
    return send(`${server.base}/mcp/acme/slow`, {
      body: at % 2 === 0 ? recent.body : rpc('tools/call', params),
      headers: at % 2 === 0 ? { ...recent.headers, ...headers } : headers,
    });
  });
  await upstream.slow.until('started', 16);

  const ended = server.program.end();

  expect(await statusesOf(calls)).toEqual([200]);
  expect(await ended).toEqual({ code: 0, signal: null });
});
