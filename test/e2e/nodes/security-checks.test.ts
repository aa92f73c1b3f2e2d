import { afterAll, beforeAll, expect, test } from 'vitest';
import { decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import { startSession } from '#server/accounts/sessions';
import { insertUser } from '#server/db/people';
import { createClient } from '#server/admin/create-credentials';
import { openPostgres } from '#server/db/postgres/open-postgres';
import { cookieName } from '#server/web/page-request';
import { pkcePair } from '#support/authorization-server';
import { hiddenFields } from '#support/granting-server';
import { mcpCall, modern } from '#support/mcp-call';
import { type ClusterNode, nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { rawAgent } from '#support/raw-agent';
import { natsUrl, postgresUrl } from '#support/requirements';
import { suite } from '#support/suite';
import { head, types, wireFrame } from '#support/wire-frames';
import { wireProxy, type WireProxy } from '#support/wire-proxy';

const made = z.object({ id: z.string(), key: z.string() });
const tokenAnswer = z.object({
  access_token: z.string().optional(),
  refresh_token: z.string().optional(),
  error: z.string().optional(),
});
const redirectUri = 'http://127.0.0.1/callback';

/** The checks that are about several nodes: something happens at the first one, and the second one must know. */
await suite(['postgres', 'nats'], 'security checks on two nodes', () => {
  const stack = new AsyncDisposableStack();
  const { challenge, verifier } = pkcePair();
  let wire: WireProxy;
  let cluster: NodeCluster;
  let db: ReturnType<typeof openPostgres>;
  let cookie: string;
  let client: { id: string; secret: string };
  let newClient: () => Promise<{ id: string; secret: string }>;
  let newMember: (name: string) => Promise<{ id: string; cookie: string }>;
  let adminToken: string;
  let first: ClusterNode;
  let second: ClusterNode;

  beforeAll(async () => {
    const { hostname, port } = new URL(postgresUrl());
    wire = stack.use(await wireProxy({ host: hostname, port: Number(port || 5432) }));
    const databaseUrl = (own: string) => wire.through(own);
    const args = ['--nats-url', natsUrl()];
    cluster = stack.use(await nodeCluster({ size: 2, args, databaseUrl }));
    const [one, other] = cluster.nodes;
    if (!one || !other) throw new Error('two nodes were expected');
    [first, second] = [one, other];
    await cluster.command(['organization', 'create', 'acme']);
    await cluster.command(['server', 'create', 'acme/sales', '--demo']);
    db = openPostgres({ connectionString: cluster.databaseUrl, max: 2 });
    stack.defer(() => db.destroy());
    const now = Math.floor(Date.now() / 1000);
    const clock = { now: () => now };
    const rows = await db.selectFrom('endpoint').select(['id', 'organization_id']).execute();
    const { id: serverId = '', organization_id: organizationId = '' } = rows[0] ?? {};
    newMember = async (name) => {
      const user = { id: `user_${name}`, email: `${name}@example.com`, createdAt: now };
      await insertUser(db, user, { organizationId, role: 'member' });
      const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'test' };
      const who = { userId: user.id, factors: 1 } as const;
      const { sessionToken } = await startSession(who, visit, { db, clock });
      return {
        id: user.id,
        cookie: `${cookieName('latchkey', cluster.base)}=${sessionToken}`,
      };
    };
    ({ cookie } = await newMember('dana'));
    const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;
    const chosen = { name: 'app', serverId, scopes, redirectUris: [redirectUri], jwks: undefined };
    newClient = () => createClient(chosen, { db, clock });
    client = await newClient();
    const owner = 'owner@example.com';
    const words = ['user', 'create', owner, '--organization', 'acme', '--role', 'owner'];
    await cluster.command(words, 'correct horse battery\n');
    const printed = await cluster.command(['token', 'create', owner, '--name', 't', '--json']);
    adminToken = z.object({ token: z.string() }).parse(JSON.parse(printed)).token;
  });
  afterAll(() => stack.disposeAsync());

  const at = ({ name }: ClusterNode) => ({ 'x-test-node': name });
  const endpoint = () => `${cluster.base}/mcp/acme/sales`;
  const call = async (node: ClusterNode, caller: { token?: string; key?: string }) =>
    (await mcpCall(endpoint(), { ...caller, headers: at(node) })).status;
  const post = async (node: ClusterNode, path: string, fields: Record<string, string>) => {
    const body = new URLSearchParams(fields);
    const answer = await fetch(cluster.base + path, { method: 'POST', headers: at(node), body });
    const text = await answer.text();
    return { status: answer.status, ...tokenAnswer.parse(text === '' ? {} : JSON.parse(text)) };
  };
  /** Asks at one node and allows at the other. */
  const code = async ({ by = cookie, of = client.id } = {}) => {
    const query = new URLSearchParams({
      client_id: of,
      response_type: 'code',
      redirect_uri: redirectUri,
      scope: 'mcp:tools:read',
      code_challenge: challenge,
      code_challenge_method: 'S256',
    });
    const page = await fetch(`${cluster.base}/oauth/consent?${query.toString()}`, {
      headers: { cookie: by, ...at(first) },
    });
    const fields = { ...hiddenFields(await page.text(), '/oauth/consent'), decision: 'allow' };
    const decided = await fetch(`${cluster.base}/oauth/consent`, {
      method: 'POST',
      headers: { cookie: by, origin: cluster.base, ...at(second) },
      body: new URLSearchParams(fields),
      redirect: 'manual',
    });
    return new URL(decided.headers.get('location') ?? 'none:').searchParams.get('code') ?? '';
  };
  const redeem = (node: ClusterNode, issued: string, of = client.id) =>
    post(node, '/api/oauth/token', {
      grant_type: 'authorization_code',
      code: issued,
      code_verifier: verifier,
      client_id: of,
      redirect_uri: redirectUri,
    });
  const refresh = (node: ClusterNode, token = '', of = client.id) =>
    post(node, '/api/oauth/token', {
      grant_type: 'refresh_token',
      refresh_token: token,
      client_id: of,
    });
  /** The admin API at a node, as an owner. */
  const administer = async (node: ClusterNode, method: string, path: string, body?: object) => {
    const answer = await fetch(`${cluster.base}/api/admin/organizations/acme${path}`, {
      method,
      headers: {
        ...at(node),
        authorization: `Bearer ${adminToken}`,
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.text();
  };

  test('26: client authentication: a client that was revoked at the other node is refused like an unknown one', async () => {
    const revoked = await newClient();
    const wrong = `${client.secret.slice(0, -1)}${client.secret.endsWith('a') ? 'b' : 'a'}`;
    const refused = async (node: ClusterNode, id: string, secret: string) => {
      const body = new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: id,
        client_secret: secret,
      });
      const token = `${cluster.base}/api/oauth/token`;
      const answer = await fetch(token, { method: 'POST', headers: at(node), body });
      return `${answer.status} ${answer.headers.get('www-authenticate')} ${await answer.text()}`;
    };
    const before = await refused(second, revoked.id, revoked.secret);

    await administer(first, 'DELETE', `/clients/${revoked.id}`);
    const answers = await Promise.all(
      [first, second].flatMap((node) => [
        refused(node, revoked.id, revoked.secret),
        refused(node, client.id, wrong),
        refused(node, `client_${'A'.repeat(24)}`, client.secret),
      ]),
    );

    expect(before).toMatch(/^200 /);
    expect(new Set(answers)).toHaveLength(1);
    expect(answers[0]).toMatch(/^401 null .*"invalid_client"/);
  });

  test.each(['person', 'client'] as const)(
    '48: %s: removed at one node, every token and code ends at the other immediately',
    async (what) => {
      const eve = await newMember(`eve-${what}`);
      const { id } = await newClient();
      const { access_token: token = '', refresh_token: refreshToken } = await redeem(
        first,
        await code({ by: eve.cookie, of: id }),
        id,
      );
      const unspent = await code({ by: eve.cookie, of: id });
      expect(await call(second, { token })).toBe(200);

      const path = what === 'person' ? `/people/${eve.id}` : `/clients/${id}`;
      await administer(first, 'DELETE', path);

      expect([await call(second, { token }), await call(first, { token })]).toEqual([401, 401]);
      expect((await refresh(second, refreshToken, id)).access_token).toBeUndefined();
      expect((await redeem(second, unspent, id)).access_token).toBeUndefined();
    },
  );

  test.each(['key', 'server'] as const)(
    '48, 58: %s: removed at one node, its key is refused by the next call at the other',
    async (what) => {
      const name = `brief-${what}`;
      await administer(first, 'POST', '/servers', { name, upstream: { kind: 'demo' } });
      const { id, key } = made.parse(
        JSON.parse(await administer(second, 'POST', `/servers/${name}/keys`, { name: 'k' })),
      );
      const status = async (node: ClusterNode) =>
        (await mcpCall(`${cluster.base}/mcp/acme/${name}`, { key, headers: at(node) })).status;
      expect([await status(first), await status(second)]).toEqual([200, 200]);

      await administer(first, 'DELETE', what === 'key' ? `/keys/${id}` : `/servers/${name}`);

      expect([await status(second), await status(first)]).toEqual([401, 401]);
    },
  );

  test('34, 36: authorization code: valid at every node at once; a second use elsewhere ends everything everywhere', async () => {
    const issued = await code();
    const { access_token: token = '', refresh_token: refreshToken } = await redeem(first, issued);
    expect([await call(first, { token }), await call(second, { token })]).toEqual([200, 200]);

    const again = await redeem(second, issued);

    expect(again).toMatchObject({ status: 400, error: 'invalid_grant' });
    expect([await call(first, { token }), await call(second, { token })]).toEqual([401, 401]);
    expect(await refresh(first, refreshToken)).toMatchObject({ error: 'invalid_grant' });
  });

  test('35: authorization code: of fifty concurrent exchanges at both nodes exactly one succeeds', async () => {
    const issued = await code();

    const all = await Promise.all(
      Array.from({ length: 50 }, (_, n) => redeem(n % 2 === 0 ? first : second, issued)),
    );

    expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test('37: refresh token: a use elsewhere after the grace period ends the family at every node', async () => {
    const issued = await redeem(first, await code());
    const next = await refresh(first, issued.refresh_token);
    const token = next.access_token ?? '';
    expect(await call(second, { token })).toBe(200);
    await db
      .updateTable('refresh_token')
      .set(({ eb }) => ({ spent_at: eb('spent_at', '-', 60) }))
      .where('spent_at', 'is not', null)
      .execute();

    const replayed = await refresh(second, issued.refresh_token);

    expect(replayed).toMatchObject({ status: 400, error: 'invalid_grant' });
    expect([await call(first, { token }), await call(second, { token })]).toEqual([401, 401]);
    expect(await refresh(first, next.refresh_token)).toMatchObject({ error: 'invalid_grant' });
  });

  test('38: refresh token: two uses at once, one at each node, get the same successor', async () => {
    const { refresh_token: token } = await redeem(first, await code());

    const [one, other] = await Promise.all([refresh(first, token), refresh(second, token)]);

    expect(one.refresh_token).toBeDefined();
    expect(other.refresh_token).toBe(one.refresh_token);
  });

  test('46: revocation: an access token that is revoked at one node is refused at the other', async () => {
    const { access_token: token = '' } = await redeem(first, await code());
    expect(await call(second, { token })).toBe(200);

    const revoked = await post(first, '/api/oauth/revoke', { token, client_id: client.id });

    expect(revoked.status).toBe(200);
    expect([await call(second, { token }), await call(first, { token })]).toEqual([401, 401]);
  });

  test('52: signing key: after its rotation both nodes publish both keys, and tokens of both are valid', async () => {
    const before = (await redeem(first, await code())).access_token ?? '';
    const kidOf = (token: string) => decodeProtectedHeader(token).kid ?? '';
    const kids = async (node: ClusterNode) => {
      const answer = await fetch(`${cluster.base}/.well-known/jwks.json`, { headers: at(node) });
      const { keys } = z
        .object({ keys: z.array(z.object({ kid: z.string() })) })
        .parse(await answer.json());
      return keys.map(({ kid }) => kid);
    };

    await cluster.command(['signing-key', 'rotate', '--master-key-file', cluster.masterKeyFile]);
    let after = before;
    await expect
      .poll(async () => {
        after = (await redeem(first, await code())).access_token ?? '';
        return kidOf(after);
      }, patient)
      .not.toBe(kidOf(before));

    const both = [kidOf(before), kidOf(after)];
    expect(await kids(first)).toEqual(expect.arrayContaining(both));
    expect(await kids(second)).toEqual(expect.arrayContaining(both));
    const answers = [before, after].map((token) => call(second, { token }));
    expect(await Promise.all(answers)).toEqual([200, 200]);
  });

  test('73: agent key: revoked through one node, it ends the tunnel at the other', async () => {
    const text = await cluster.command(['agent', 'create', 'acme/short', '--json']);
    const agent = made.parse(JSON.parse(text));
    const url = `http://127.0.0.1:${second.port}`;
    const headers = { host: new URL(cluster.base).host };
    await using tunnel = await rawAgent(url, { key: agent.key, servers: [], headers });

    await cluster.command(['agent', 'revoke', agent.id]);

    expect(await tunnel.closed).toBe(4401);
  });

  test('74: agent tunnel: an agent at one node gets no call for the server of another agent from the other node', async () => {
    await administer(first, 'POST', '/agents', { name: 'honest' });
    const upstream = { kind: 'agent', agent: 'honest' };
    await administer(first, 'POST', '/servers', { name: 'private', upstream });
    const agent = made.parse(
      JSON.parse(await administer(first, 'POST', '/agents', { name: 'liar' })),
    );
    const { key } = made.parse(
      JSON.parse(await administer(first, 'POST', '/servers/private/keys', { name: 'k' })),
    );
    const headers = { host: new URL(cluster.base).host };
    const options = { key: agent.key, servers: ['private'], headers };
    await using liar = await rawAgent(`http://127.0.0.1:${second.port}`, options);

    const answers = await Promise.all(
      [first, second].map((node) =>
        mcpCall(`${cluster.base}/mcp/acme/private`, { key, headers: at(node) }),
      ),
    );

    expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    expect(liar.frames.filter(({ type }) => type === types.open)).toEqual([]);
  });

  test('74: agent tunnel: frames for calls of another node’s agent reach no caller, and end their tunnel', async () => {
    const honest = made.parse(
      JSON.parse(await administer(first, 'POST', '/agents', { name: 'busy' })),
    );
    const liar = made.parse(
      JSON.parse(await administer(first, 'POST', '/agents', { name: 'forger' })),
    );
    const upstream = { kind: 'agent', agent: 'busy' };
    await administer(first, 'POST', '/servers', { name: 'busy', upstream });
    const { key } = made.parse(
      JSON.parse(await administer(first, 'POST', '/servers/busy/keys', { name: 'k' })),
    );
    const headers = { host: new URL(cluster.base).host };
    const tunnel = (node: ClusterNode, agentKey: string) =>
      rawAgent(`http://127.0.0.1:${node.port}`, { key: agentKey, servers: ['busy'], headers });
    await using serving = await tunnel(first, honest.key);
    await using forging = await tunnel(second, liar.key);
    const lie = '{"jsonrpc":"2.0","id":1,"result":{"content":"lie"}}';

    const calls = Array.from({ length: 20 }, (_, index) => {
      const echo = modern('tools/call', { name: 'echo', arguments: { nonce: `nonce ${index}.` } });
      return mcpCall(`${cluster.base}/mcp/acme/busy`, {
        key,
        body: echo.body,
        headers: { ...echo.headers, ...at(second) },
      });
    });
    for (let stream = 1; stream <= 350; stream += 1) {
      forging.say(head(stream), wireFrame(types.data, stream, lie), wireFrame(types.end, stream));
    }

    expect(await forging.closed).toBe(4403);
    const texts = (await Promise.all(calls)).map(({ text }) => text);
    texts.forEach((text, index) => expect(text).toContain(`"nonce ${index}."`));
    expect(serving.socket.readyState).toBe(serving.socket.OPEN);
  });

  test('112: cut-off node: a stream ends while PostgreSQL does not answer', async () => {
    const text = await cluster.command(['key', 'create', 'acme/sales', '--name', 'k', '--json']);
    const { key } = made.parse(JSON.parse(text));
    const listen = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
    const answer = await fetch(endpoint(), {
      method: 'POST',
      headers: {
        ...listen.headers,
        ...at(second),
        'content-type': 'application/json',
        'x-api-key': key,
      },
      body: listen.body,
    });
    let heard = '';
    let isOpen = true;
    const reading = (async () => {
      for await (const chunk of answer.body ?? []) heard += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    void reading.then(() => (isOpen = false));
    await expect.poll(() => heard, patient).toContain('acknowledged');

    wire.stall();
    await expect.poll(() => isOpen, patient).toBe(false);
    wire.resume();

    await expect.poll(() => call(second, { key }), patient).toBe(200);
  });

  test('90: fail closed: while PostgreSQL does not answer, no node admits anyone; afterwards both do', async () => {
    const text = await cluster.command(['key', 'create', 'acme/sales', '--name', 'k', '--json']);
    const { key } = made.parse(JSON.parse(text));
    const both = () => Promise.all([call(first, { key }), call(second, { key })]);
    const once = { 'x-test-once': '1' };
    const firstOf = (node: ClusterNode) =>
      mcpCall(endpoint(), { key, headers: { ...at(node), ...once } });
    const refusals = async () => {
      const answers = await Promise.all([firstOf(first), firstOf(second)]);
      return answers.map(({ status }) => status);
    };
    expect(await both()).toEqual([200, 200]);

    wire.stall();
    const stalled = await refusals();
    wire.resume();
    await wire.cut();
    const cut = await refusals();
    await wire.mend();

    expect([stalled, cut]).toEqual([
      [503, 503],
      [503, 503],
    ]);
    await expect.poll(both, patient).toEqual([200, 200]);
  });
});
