import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { createKey } from '#server/admin/create-credentials';
import { removeMember } from '#server/db/people';
import { ordinaryScopes } from '#server/model/scopes';
import { updateServer } from '#server/db/servers';
import { enteringPerson, keyPage } from '#support/entering-person';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { runCommandInProcess } from '#support/run-command-in-process';
import { runningAgent } from '#support/running-agent';
import { keyedUpstream, type KeyedUpstream } from '#support/upstreams/keyed-upstream';

const danas = 'Uq81-the-key-of-dana-at-the-upstream';
const eves = 'Uq82-the-key-of-eve-at-the-upstream!$&';
const wrong = 'Uq83-nobody-knows-this-key-there';
const secrets = [danas, eves, wrong];
/** All that was answered to anybody, apart from what the upstream itself said to the owner of a key. */
const said: string[] = [];

let server: GrantingServer;
let upstream: KeyedUpstream;
let endpoint: string;

beforeAll(async () => {
  server = await grantingServer({ args: ['--outbound-host', '127.0.0.1'] });
  endpoint = `${server.base}/mcp/acme/sales`;
});
afterAll(() => server[Symbol.asyncDispose]());

const command = async (...words: string[]) => {
  const printed = await runCommandInProcess([...words, '--data-dir', server.dataDir]);
  said.push(printed);
  return printed;
};
const pointAt = (url: string, id = 'srv_sales') =>
  updateServer(server.stores.db, id, { upstream: { kind: 'http', url, publicOnly: true } });
const requireKey = (...words: string[]) =>
  command(
    'server',
    'set-access',
    'acme/sales',
    '--per-person-key',
    '--key-header',
    'X-Their-Key',
    ...words,
  );
const person = async (role?: Parameters<GrantingServer['browser']>[0]) =>
  enteringPerson(server, await server.browser(role));
const tokenOf = async (browser: Browser) => (await server.signIn(browser)).accessToken;
const whoami = (credential: { key?: string; token?: string }, name = 'whoami') =>
  mcpCall(endpoint, { ...credential, body: rpc('tools/call', { name, arguments: {} }) });
const keyOf = async () => {
  const owner = { type: 'server', serverId: 'srv_sales' } as const;
  const made = { name: 'key', scopes: [...ordinaryScopes], expiresAt: undefined, owner };
  const clock = { now: () => Math.floor(Date.now() / 1000) };
  return (await createKey(made, { db: server.stores.db, clock })).key;
};
const sentKeys = (of: KeyedUpstream) =>
  of.requests.flatMap(({ headers }) => headers['x-their-key'] ?? []);

beforeEach(async () => {
  upstream = await keyedUpstream();
  upstream.keys.set(danas, 'dana').set(eves, 'eve');
  await pointAt(upstream.url);
  await requireKey('--key-tool', 'whoami');
  return () => upstream[Symbol.asyncDispose]();
});

describe('whose key is used', () => {
  test('190: two people use two keys at the same time, and nobody else uses either', async () => {
    const [dana, eve, vic, owner] = [
      await person(),
      await person(),
      await person(),
      await person('owner'),
    ];
    const [danasToken, evesToken, vicsToken, ownersToken] = [
      await tokenOf(dana),
      await tokenOf(eve),
      await tokenOf(vic),
      await tokenOf(owner),
    ];
    expect(await dana.enter(danas)).toBe(`${keyPage()}?done=proved`);
    expect(await eve.enter(`${eves}\r\n`)).toBe(`${keyPage()}?done=proved`);

    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        whoami({ token: index % 2 === 0 ? danasToken : evesToken }),
      ),
    );
    const names = answers.map(({ text }) => /you are (\w+)/.exec(text)?.[1]);
    expect(names).toEqual(names.map((_, index) => (index % 2 === 0 ? 'dana' : 'eve')));

    upstream.requests.length = 0;
    const others = [
      await whoami({ token: vicsToken }),
      await whoami({ token: ownersToken }),
      await whoami({ key: await keyOf() }),
    ];
    said.push(...others.map(({ text }) => text));
    expect(others.map(({ text }) => JSON.parse(text).result.isError)).toEqual([true, true, true]);
    expect(others[0]?.text).toContain(`open ${server.base}${keyPage()}`);
    expect(others[2]?.text).toContain('sign in as a person');
    expect(sentKeys(upstream)).toEqual([]);
  });

  test('190: an assistant that shows URLs is asked to open the page, in both eras', async () => {
    const token = await tokenOf(await person());
    const showing = { elicitation: { url: {} } };
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: showing,
      clientInfo: { name: 'x', version: '1' },
    };
    const { body, headers } = modern('tools/call', { name: 'whoami', arguments: {} });
    const asking = body.replace(
      '"io.modelcontextprotocol/clientCapabilities":{}',
      `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(showing)}`,
    );
    const legacy = await mcpCall(endpoint, { token, body: rpc('initialize', params) });
    const answer = await mcpCall(endpoint, { token, headers, body: asking });

    const url = server.base + keyPage();
    expect(JSON.parse(legacy.text).error).toMatchObject({
      code: -32_042,
      data: { elicitations: [{ mode: 'url', url }] },
    });
    expect(JSON.parse(answer.text).result).toMatchObject({
      resultType: 'input_required',
      inputRequests: { 'latchkey-connect': { params: { mode: 'url', url } } },
    });
    expect(url).not.toContain('?');
  });
});

describe('where a key is sent', () => {
  test('191: to the origin that it was entered for, across no redirect, and not after the server moved and came back', async () => {
    await using elsewhere = await keyedUpstream();
    elsewhere.keys.set(danas, 'dana elsewhere');
    const dana = await person();
    const token = await tokenOf(dana);
    await dana.enter(danas);

    upstream.redirect = elsewhere.url;
    const redirected = await whoami({ token });
    upstream.redirect = undefined;
    await pointAt(elsewhere.url);
    const moved = await whoami({ token });
    await pointAt(upstream.url);
    upstream.requests.length = 0;
    const back = await whoami({ token });
    said.push(redirected.text, moved.text, back.text);

    expect(redirected.status).toBe(502);
    expect(moved.text).toContain('enter your own key for this MCP server first');
    expect(back.text).toContain('enter your own key for this MCP server first');
    expect([...sentKeys(elsewhere), ...sentKeys(upstream)]).toEqual([]);
  });

  test('191: to no other origin than the one that the page named when it was opened', async () => {
    await using elsewhere = await keyedUpstream();
    const dana = await person();
    const shown = await dana.page();
    await pointAt(elsewhere.url);
    const answer = await dana.enter(danas, shown);

    expect(answer).toContain('The server was changed in the meantime');
    expect([...sentKeys(elsewhere), ...sentKeys(upstream)]).toEqual([]);
    expect(await dana.enter(danas)).toContain('was not saved');
    expect(new Set(sentKeys(elsewhere))).toEqual(new Set([danas]));
  });

  test('191: another path of the same origin gets it', async () => {
    const dana = await person();
    const token = await tokenOf(dana);
    await dana.enter(danas);
    await pointAt(`${upstream.url}/v2`);

    expect((await whoami({ token })).text).toContain('you are dana');
  });

  test('191: a stored key opens for no other person, server or origin, however its row is changed', async () => {
    const { db } = server.stores;
    await using elsewhere = await keyedUpstream();
    const [dana, eve] = [await person(), await person()];
    const tokens = [await tokenOf(dana), await tokenOf(eve)];
    await dana.enter(danas);
    await eve.enter(eves);
    const stolen = await db
      .selectFrom('person_key')
      .select('sealed_key')
      .where('person_id', '=', dana.userId)
      .executeTakeFirstOrThrow();
    upstream.requests.length = 0;
    await db.updateTable('person_key').set(stolen).where('person_id', '=', eve.userId).execute();
    const asEve = await whoami({ token: tokens[1] ?? '' });
    const { origin } = new URL(elsewhere.url);
    await db
      .updateTable('target')
      .set({ upstream_settings: JSON.stringify({ url: elsewhere.url, publicOnly: true }) })
      .where('id', '=', 'target_sales')
      .execute();
    const moved = await whoami({ token: tokens[0] ?? '' });
    await db.updateTable('person_key').set({ place: origin }).execute();
    const claimed = await whoami({ token: tokens[0] ?? '' });

    expect(moved.text).toContain('enter your own key for this MCP server first');
    expect([asEve.status, claimed.status]).toEqual([500, 500]);
    expect([...sentKeys(elsewhere), ...sentKeys(upstream)]).toEqual([]);
  });
});

describe('how a key is entered', () => {
  test('192: only by the person’s own form: no link, forged form, other session, token or administrator enters one', async () => {
    const [dana, owner] = [await person(), await person('owner')];
    const path = `${server.base}${keyPage()}`;
    const linked = await fetch(`${path}?key=${danas}`, { headers: { cookie: dana.cookie } });
    said.push(await linked.text());
    const ownersPage = await owner.page();
    const csrf = /name="csrf_token" value="([^"]+)"/.exec(ownersPage)?.[1] ?? '';
    const post = async (headers: Record<string, string>, to = '/key') =>
      fetch(path + to, {
        method: 'POST',
        redirect: 'manual',
        headers,
        body: new URLSearchParams({ csrf_token: csrf, key: danas }),
      });
    const refused = [
      await post({ origin: server.base }),
      await post({ origin: server.base, cookie: dana.cookie }),
      await post({ origin: 'https://evil.example', cookie: owner.cookie }),
    ].map(({ status }) => status);
    const token = await command('token', 'create', 'person1@example.com', '--name', 't', '--json');
    const { token: personal } = Object(JSON.parse(token));
    const api = `${server.base}/api/admin/organizations/acme/servers/sales/own-connection`;
    const headers = {
      authorization: `Bearer ${personal}`,
      'content-type': 'application/json',
    };
    const sent = { headers, body: JSON.stringify({ key: danas }) };
    const byApi = [
      await fetch(api, { ...sent, method: 'PUT' }),
      await fetch(api, { ...sent, method: 'POST' }),
      await fetch(api, { ...sent, method: 'PATCH' }),
    ];

    expect(linked.status).toBe(200);
    expect(refused).toEqual([303, 403, 403]);
    expect(byApi.map(({ status }) => status)).toEqual([404, 404, 404]);
    expect(await dana.page()).toContain('Enter your');
    expect(sentKeys(upstream)).toEqual([]);
  });

  test.each([
    ['a line break', `${danas}\r\nX-Admin: 1`],
    ['a null byte', `${danas}\0`],
    ['a space', `${danas} x`],
    ['another script', `${danas}ключ`],
    ['few characters', 'short'],
    ['too many characters', 'x'.repeat(3801)],
  ])('192: a key with %s is refused before anything is sent', async (_title, key) => {
    const dana = await person();

    expect(await dana.enter(key)).toMatch(/may contain only|must have at|Invalid request/);
    expect(sentKeys(upstream)).toEqual([]);
  });

  test.each([
    ['--key-header', 'Host'],
    ['--key-header', 'Mcp-Session-Id'],
    ['--key-header', 'Content-Length'],
    ['--key-header', 'X\r\nY'],
    ['--key-template', 'Bearer'],
    ['--key-template', '{key}{key}'],
    ['--key-template', '{key}\r\nX: y'],
    ['--key-help-url', 'javascript:alert(1)'],
    ['--key-help-url', 'http://keys.example.com'],
  ])('192: %s %j is refused', async (option, value) => {
    await expect(requireKey(option, value)).rejects.toThrow(/header|template|value|help|invalid/i);
  });
});

describe('what becomes of a key', () => {
  test('193: a wrong key never takes the place of one that works, and one that works does at once', async () => {
    const dana = await person();
    const token = await tokenOf(dana);
    await dana.enter(danas);
    const refused = await dana.enter(wrong);
    const kept = await whoami({ token });
    upstream.keys.set(eves, 'dana again');
    const replaced = await dana.enter(eves);
    const after = await whoami({ token });
    said.push(refused);

    expect(refused).toContain('The MCP server refuses this key. Your key before it is kept.');
    expect(kept.text).toContain('you are dana ');
    expect(replaced).toBe(`${keyPage()}?done=proved`);
    expect(after.text).toContain('you are dana again');
  });

  test('193: of two keys that are tried at the same time, the second does not undo the first', async () => {
    const dana = await person();
    await dana.enter(danas);
    const both = Promise.withResolvers<void>();
    let waiting = 0;
    upstream.beforeTool = async () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      await both.promise;
    };
    upstream.keys.set(wrong, 'dana, too');
    const outcomes = await Promise.all([dana.enter(eves), dana.enter(wrong)]);

    expect(outcomes.filter((one) => one.endsWith('?done=proved'))).toHaveLength(1);
    expect(outcomes.filter((one) => one.includes('changed in the meantime'))).toHaveLength(1);
  });

  test('193: a key that the person removed or left behind is not used again, and is stored nowhere', async () => {
    const [dana, eve] = [await person(), await person()];
    const tokens = { dana: await tokenOf(dana), eve: await tokenOf(eve) };
    await dana.enter(danas);
    await eve.enter(eves);
    await dana.press('/disconnect');
    await removeMember(server.stores.db, 'org_acme', eve.userId, 'member');
    upstream.requests.length = 0;
    const removed = await whoami({ token: tokens.dana });
    const left = await whoami({ token: tokens.eve });
    const rows = await server.stores.db
      .selectFrom('person_key')
      .select('person_id')
      .where('person_id', 'in', [dana.userId, eve.userId])
      .execute();

    expect(removed.text).toContain('enter your own key');
    expect(left.status).toBe(401);
    expect([rows, sentKeys(upstream)]).toEqual([[], []]);
  });

  test.each([401, 403] as const)(
    '193: a key that is refused with %d is shown to its owner and in Activity, with the link again',
    async (refusal) => {
      upstream.refusal = refusal;
      const [dana, eve] = [await person('owner'), await person()];
      const token = await tokenOf(dana);
      await dana.enter(danas);
      await eve.enter(eves);
      upstream.keys.delete(danas);
      const answer = await whoami({ token });
      said.push(answer.text);

      expect(JSON.parse(answer.text).result).toMatchObject({ isError: true });
      expect(answer.text).toContain(`refused your key: enter a new one at ${server.base}`);
      expect(answer.headers.get('www-authenticate')).toBeNull();
      await vi.waitFor(
        async () => expect(await dana.page()).toContain('The MCP server refuses this key'),
        patient,
      );
      expect(await eve.page()).not.toContain('refuses this key');
      const recorded = ['--account', 'person_key', '--error', 'key_refused', '--json'];
      await vi.waitFor(async () => {
        const rows = await command('call', 'list', 'acme/sales', ...recorded);
        expect(rows).toContain(`${dana.userId.replace('user_', 'person')}@example.com`);
      }, patient);

      upstream.keys.set(danas, 'dana');
      expect((await whoami({ token })).text).toContain('you are dana');
      await vi.waitFor(
        async () => expect(await dana.page()).not.toContain('refuses this key'),
        patient,
      );
    },
  );
});

describe('behind an agent', () => {
  const child = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');

  test('194: a key goes to an HTTP server there, never to a command, and never in place of the agent’s own header', async () => {
    const { db } = server.stores;
    const made = JSON.parse(await command('agent', 'create', 'acme/berlin', '--json'));
    const { id: agentId, key: agentKey } = Object(made);
    const events = join(server.dataDir, 'child-events');
    const http = { url: upstream.url };
    await using own = await keyedUpstream();
    await updateServer(db, 'srv_sales', { upstream: { kind: 'agent', agentId } });
    await updateServer(db, 'srv_support', { upstream: { kind: 'agent', agentId } });
    // Before the agent has connected, nobody knows what it serves: then the key is stopped on its way.
    await command('server', 'set-access', 'acme/support', '--per-person-key');
    const stack = new AsyncDisposableStack();
    await using agents = stack;
    agents.use(
      await runningAgent(server.base, agentKey, {
        sales: http,
        support: { command: process.execPath, args: [child], env: { CHILD_EVENTS: events } },
      }),
    );
    await requireKey('--key-tool', 'whoami');
    const [dana, owner] = [await person(), await server.browser('owner')];
    const token = await tokenOf(dana);
    const shown = await dana.page();
    const entered = await dana.enter(danas);
    const answer = await whoami({ token });

    expect(shown).toContain('Whoever operates that agent can read it');
    expect([entered, answer.text]).toEqual([
      `${keyPage()}?done=proved`,
      expect.stringContaining('you are dana'),
    ]);

    const atCommand = await enteringPerson(server, dana, keyPage('support')).enter(danas);
    const page = await fetch(`${server.base}/dashboard/acme/servers/support/upstream`, {
      headers: { cookie: owner.cookie },
    });

    expect(atCommand).toContain('passes no keys of people');
    expect(await page.text()).toContain('This server has another kind of upstream');
    expect(existsSync(events)).toBe(false);

    await stack.disposeAsync();
    await updateServer(db, 'srv_support', { upstream: { kind: 'demo' } });
    await using configured = await runningAgent(
      server.base,
      agentKey,
      {
        sales: { url: own.url, headers: { 'X-Their-Key': { env: 'OWN_KEY' } } },
      },
      { OWN_KEY: 'the-key-of-the-operator' },
    );
    expect(configured.program).toBeDefined();
    own.keys.set(danas, 'dana');
    const instead = await whoami({ token });

    expect(instead.status).toBe(502);
    expect(own.requests).toEqual([]);
  });

  test.each([
    ['the demo', 'acme/demo', ['--demo']],
    ['a collection', 'acme/desk', undefined],
  ])('194: %s requires no key of people', async (_title, path, words) => {
    if (words) await command('server', 'create', path, ...words);
    else await command('collection', 'create', path, '--member', 'support');

    await expect(command('server', 'set-access', path, '--per-person-key')).rejects.toThrow(
      'a command and a collection cannot',
    );
  });
});

test('190: after all of that, no key is in a page, an answer, the database, a backup or recorded results', async () => {
  const dana = await person('owner');
  const token = await tokenOf(dana);
  await command('server', 'set-contents', 'acme/sales', '--arguments', '--results');
  await dana.enter(danas);
  await requireKey('--key-tool', '');
  await dana.enter(eves);
  said.push(await dana.page());
  upstream.keys.delete(eves);
  const answered = await whoami({ token });
  expect(answered.text).toContain(`you are dana with ${danas}`);
  await vi.waitFor(async () => {
    const ofKeys = ['--account', 'person_key', '--outcome', 'ok', '--limit', '1', '--json'];
    const [row] = Object(JSON.parse(await command('call', 'list', 'acme/sales', ...ofKeys)));
    const stored = await command('call', 'content', 'acme', String(row.id), '--json');
    expect(stored).toContain('you are dana with [redacted]');
  }, patient);
  said.push(await command('connection', 'list', 'acme/sales', '--json'));
  said.push(await command('server', 'show-access', 'acme/sales', '--json'));
  await command('backup', join(server.dataDir, 'copy.db'));
  const texts = readdirSync(server.dataDir)
    .filter((name) => name.includes('.db'))
    .map((name) => readFileSync(join(server.dataDir, name)).toString('latin1'));

  expect(texts.length).toBeGreaterThan(1);
  for (const secret of secrets) {
    expect([...texts, ...said].filter((text) => text.includes(secret))).toEqual([]);
  }
});
