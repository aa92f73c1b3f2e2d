import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { openStores, type Stores } from '#server/app/stores';
import { type CallingPerson, callingPerson } from '#support/calling-person';
import { mcpCall, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { serverProcess, type ServerProcess } from '#support/server-process';
import {
  recordingUpstream,
  type RecordingUpstream,
  sendJson,
} from '#support/upstreams/recording-upstream';

const versions = { 'mcp-protocol-version': '2025-06-18' };
const made = z.object({ id: z.string(), key: z.string() });
const listed = z.object({
  items: z.array(z.object({ id: z.string(), tool: z.string().nullable() })),
  next: z.string().nullable(),
});
const stack = new AsyncDisposableStack();
let upstream: RecordingUpstream;
let server: ServerProcess;
let stores: Stores;
const people: Record<string, CallingPerson> = {};
/** An OAuth client of each server. */
const clients: Record<string, string> = {};

beforeAll(async () => {
  upstream = stack.use(await recordingUpstream());
  upstream.answer = ({ body }, response) => {
    const id = /"id"\s*:\s*(\d+)/.exec(body.toString())?.[1] ?? 'null';
    sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"content":[]}}`);
  };
  server = stack.use(await serverProcess());
  for (const organization of ['acme', 'rivals']) {
    await server.command(['organization', 'create', organization]);
    const path = `${organization}/web`;
    await server.command(['server', 'create', path, '--http-url', upstream.url]);
    const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
    const words = [...scopes, '--redirect-uri', 'http://127.0.0.1/callback', '--json'];
    const name = `app of ${organization}`;
    const client = await server.command(['client', 'create', path, '--name', name, ...words]);
    clients[organization] = z.object({ client_id: z.string() }).parse(JSON.parse(client)).client_id;
    for (const role of ['admin', 'member', 'viewer']) {
      const email = `${role}@${organization}.example`;
      people[email] = await callingPerson(server, email, { organization, role });
    }
  }
  stores = await openStores(server.dataDir);
  stack.defer(() => stores.close());
});
afterAll(() => stack.disposeAsync());

function person(email: string): CallingPerson {
  const found = people[email];
  if (!found) throw new Error(`no person ${email}`);
  return found;
}

const endpointOf = (organization: string) => `${server.base}/mcp/${organization}/web`;
const tool = (name: string) => rpc('tools/call', { name, arguments: {} });

async function newKey(path: string, ...words: string[]) {
  const command = ['key', 'create', path, '--name', 'k', ...words, '--json'];
  return made.parse(JSON.parse(await server.command(command)));
}

/** Calls a tool for a person, through the client of their organization. */
async function callAs(email: string, name: string): Promise<void> {
  const organization = /@(\w+)\./.exec(email)?.[1] ?? '';
  const token = await person(email).allow(clients[organization] ?? '');
  const call = { token, body: tool(name), headers: versions };
  const { status } = await mcpCall(endpointOf(organization), call);
  if (status !== 200) throw new Error(`${name}: ${status}`);
}

/** The calls of an organization, as the admin API shows them to a person. */
async function callsFor(email: string, path: string) {
  const answer = await person(email).ask(path);
  const text = await answer.text();
  const { data } = listed.safeParse(JSON.parse(text));
  return { status: answer.status, text, items: data?.items ?? [], next: data?.next ?? null };
}

/** The recorded call of a tool, once readers see it. */
function recorded(organization: string, name: string) {
  return vi.waitFor(async () => {
    const path = `/${organization}/calls?tool=${name}`;
    const [call] = (await callsFor(`admin@${organization}.example`, path)).items;
    if (!call) throw new Error(`${name} is not recorded`);
    return call;
  }, patient);
}

async function pageFor(email: string, path: string) {
  const answer = await person(email).browser.get(path);
  return { status: answer.status, text: await answer.text() };
}

describe('119: foreign rows: nobody finds a call of another organization', () => {
  let theirs: string;
  let ours: string;
  const words = ['rivals_secret', 'member@rivals.example', 'app of rivals'];
  const told = (text: string) => words.filter((word) => text.includes(word));

  beforeAll(async () => {
    await callAs('member@rivals.example', 'rivals_secret_first');
    await callAs('member@acme.example', 'older_of_acme');
    await callAs('member@rivals.example', 'rivals_secret_tool');
    await callAs('member@acme.example', 'newer_of_acme');
    await callAs('member@rivals.example', 'rivals_secret_last');
    await recorded('rivals', 'rivals_secret_last');
    ours = (await recorded('acme', 'newer_of_acme')).id;
    theirs = (await recorded('rivals', 'rivals_secret_tool')).id;
  });

  test('119: foreign rows: by its id, as if it did not exist', async () => {
    const unknown = 'f'.repeat(24);
    const page = '/dashboard/acme/activity';
    const admin = 'admin@acme.example';
    for (const [path, other] of [
      [`/acme/calls/${theirs}`, `/acme/calls/${unknown}`],
      [`/rivals/calls/${theirs}`, `/nobody/calls/${theirs}`],
      ['/rivals/calls', '/nobody/calls'],
    ] as const) {
      const [found, absent] = [await callsFor(admin, path), await callsFor(admin, other)];
      expect(found).toEqual(absent);
      expect(found.status).toBe(404);
    }
    for (const path of [`${page}/${theirs}`, `/dashboard/rivals/activity/${theirs}`]) {
      const found = await pageFor(admin, path);
      expect([found.status, told(found.text)]).toEqual([404, []]);
    }
    expect((await pageFor(admin, `${page}/${ours}`)).status).toBe(200);
  });

  test.each(['after', 'newer'])('119: foreign rows: beyond a cursor %s it', async (side) => {
    const found = await callsFor('admin@acme.example', `/acme/calls?${side}=${theirs}`);
    const link = side === 'after' ? 'older' : 'newer';
    const path = `/dashboard/acme/activity?${link}=${theirs}`;
    const page = await pageFor('admin@acme.example', path);

    expect(found.items.map((item) => item.tool)).toEqual([
      side === 'after' ? 'older_of_acme' : 'newer_of_acme',
    ]);
    expect([page.status, told(found.text), told(page.text)]).toEqual([200, [], []]);
  });

  test('119: foreign rows: by a filter with what is known of it', async () => {
    const row = await stores.db
      .selectFrom('call_record')
      .selectAll()
      .where('id', '=', theirs)
      .executeTakeFirstOrThrow();
    const filters = {
      person: [row.person_id ?? '', row.person_name ?? ''],
      application: [row.application ?? ''],
      credential: [row.credential_id],
      tool: [row.subject ?? '', 'rivals*', 'rivals_secret_tool'],
    };
    const ofPage = { ...filters, endpoint: [row.endpoint_id], server: [row.target_id] };
    const found = Object.entries(filters).flatMap(([name, values]) =>
      values.map((value) => `/acme/calls?${name}=${encodeURIComponent(value)}`),
    );
    const pages = Object.entries(ofPage).flatMap(([name, values]) =>
      values.map((value) => [name, value] as const),
    );

    for (const path of found) {
      const { items } = await callsFor('admin@acme.example', path);
      const tools = items.map((item) => item.tool);
      expect([path, tools.filter((one) => one?.includes('rivals'))]).toEqual([path, []]);
    }
    for (const [name, value] of pages) {
      const path = `/dashboard/acme/activity?${name}=${encodeURIComponent(value)}`;
      const { status, text } = await pageFor('admin@acme.example', path);
      // The filter shows what the reader typed, and no name that belongs to it.
      expect([path, status, told(text).filter((word) => !value.startsWith(word))]).toEqual([
        path,
        200,
        [],
      ]);
    }
  });

  test('119: foreign rows: in an export', async () => {
    for (const format of ['--csv', '--json']) {
      const text = await server.command(['call', 'export', 'acme', format]);

      expect(text).toContain('newer_of_acme');
      expect(told(text)).toEqual([]);
    }
  });
});

describe('120: own rows: who may not read the calls of others finds none of them', () => {
  let ofAdmin: string;
  let ofMember: string;

  beforeAll(async () => {
    await callAs('member@acme.example', 'first_of_member');
    await callAs('admin@acme.example', 'hidden_of_admin');
    const { key } = await newKey('acme/web');
    await mcpCall(endpointOf('acme'), { key, body: tool('hidden_of_key'), headers: versions });
    await callAs('member@acme.example', 'last_of_member');
    ofAdmin = (await recorded('acme', 'hidden_of_admin')).id;
    ofMember = (await recorded('acme', 'last_of_member')).id;
    await recorded('acme', 'hidden_of_key');
  });

  test('120: own rows: a member through the admin API, also with cursors that an admin got', async () => {
    const { next } = await callsFor('admin@acme.example', '/acme/calls?limit=1');
    const all = await callsFor('admin@acme.example', '/acme/calls');
    const ways = [
      '/acme/calls',
      '/acme/calls?limit=200',
      `/acme/calls?after=${next}`,
      ...all.items.flatMap(({ id }) => [`/acme/calls?after=${id}`, `/acme/calls?newer=${id}`]),
      '/acme/calls?tool=hidden*',
      '/acme/calls?outcome=ok',
      '/acme/calls?server=web',
      '/acme/calls?from=0',
    ];
    for (const path of ways) {
      const { status, text } = await callsFor('member@acme.example', path);
      expect([path, status, text.includes('hidden')]).toEqual([path, 200, false]);
    }
    for (const path of ['?person=admin@acme.example', '?person=nobody@acme.example', '?person=']) {
      const { status, text } = await callsFor('member@acme.example', `/acme/calls${path}`);
      expect([path, [403, 422, 400].includes(status)]).toEqual([path, true]);
      expect(text).not.toContain('hidden');
    }
    const ofAll = await callsFor('admin@acme.example', `/acme/calls?after=${ofMember}`);
    expect(ofAll.text).toContain('hidden');
  });

  test('120: own rows: a member by the id of a call, as if it did not exist', async () => {
    const unknown = await callsFor('member@acme.example', `/acme/calls/${'f'.repeat(24)}`);

    expect(await callsFor('member@acme.example', `/acme/calls/${ofAdmin}`)).toEqual(unknown);
    expect(unknown.status).toBe(404);
    const own = await callsFor('member@acme.example', `/acme/calls/${ofMember}`);
    expect([own.status, own.text.includes('last_of_member')]).toEqual([200, true]);
  });

  test('120: own rows: a member on pages, and on the pages that show the last calls', async () => {
    const row = await stores.db
      .selectFrom('call_record')
      .selectAll()
      .where('id', '=', ofAdmin)
      .executeTakeFirstOrThrow();
    const activity = '/dashboard/acme/activity';
    const paths = [
      activity,
      ...[`older=${ofMember}`, `newer=${ofAdmin}`, 'outcome=ok', 'tool=hidden_of_admin'].map(
        (query) => `${activity}?${query}`,
      ),
      `${activity}?person=${row.person_id}`,
      `${activity}?person=admin@acme.example`,
      `${activity}?credential=${row.credential_id}`,
      `${activity}/${ofAdmin}`,
      `${activity}/${ofMember}`,
      '/dashboard/acme',
      '/dashboard/acme/servers/web',
      '/dashboard/acme/servers/web/tools',
    ];
    for (const path of paths) {
      const { text } = await pageFor('member@acme.example', path);
      // What the reader typed is in the form, in the hint about longer names, and in the addresses with which the page makes itself anew.
      const typed =
        /value="hidden_of_admin"|hidden_of_admin\* also finds names that begin with hidden_of_admin|(hx-get|data-live)="[^"]*"/g;
      const shown = text.replaceAll(typed, '');
      expect([path, shown.includes('hidden_of')]).toEqual([path, false]);
    }
    expect((await pageFor('member@acme.example', `${activity}/${ofAdmin}`)).status).toBe(404);
    const own = await pageFor('member@acme.example', activity);
    expect(own.text).toContain('last_of_member');
  });

  test('120: own rows: a viewer without calls sees none', async () => {
    const found = await callsFor('viewer@acme.example', '/acme/calls');
    const page = await pageFor('viewer@acme.example', '/dashboard/acme/activity');

    expect(found.items).toEqual([]);
    expect(page.text).not.toMatch(/hidden_of|of_member/);
  });

  test('120: own rows: the live stream of a member announces no call', async () => {
    const reading = new AbortController();
    const { browser } = person('member@acme.example');
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const stream = await fetch(`${server.base}/dashboard/acme/live`, {
      headers: { cookie },
      signal: reading.signal,
    });
    const received: string[] = [];
    const read = (async () => {
      for await (const chunk of stream.body ?? []) received.push(Buffer.from(chunk).toString());
    })().catch(() => undefined);
    await callAs('admin@acme.example', 'hidden_of_live');
    const { id } = await recorded('acme', 'hidden_of_live');
    // A change that every stream announces: after it, no earlier event can be on its way.
    await server.command(['server', 'create', 'acme/announced', '--http-url', upstream.url]);
    await vi.waitFor(() => expect(received.join('')).toContain('event: written'), patient);
    reading.abort();
    await read;

    expect(stream.status).toBe(200);
    expect(received.join('')).not.toMatch(new RegExp(`hidden_of|admin@|${id}`));
    expect(received.join('').replaceAll(/retry: \d+|event: written|data:|:|\n/g, '')).toBe('');
  });
});

test('123: throttled caller: a key that is refused without end leaves all rows of others, and few of its own', async () => {
  await server.command(['server', 'create', 'acme/limited', '--http-url', upstream.url]);
  await server.command(['server', 'limit', 'acme/limited', '--calls-per-minute', '1']);
  const throttled = await newKey('acme/limited');
  const other = await newKey('acme/web');
  const flood = async (from: number) => {
    for (let at = from; at < 4000; at += 8) {
      await mcpCall(`${server.base}/mcp/acme/limited`, {
        key: throttled.key,
        body: tool(`flood_${at}`),
        headers: versions,
      });
    }
  };
  const quiet = async () => {
    for (let at = 0; at < 100; at += 1) {
      const call = { key: other.key, body: tool(`quiet_${at}`), headers: versions };
      await mcpCall(endpointOf('acme'), call);
    }
  };
  await Promise.all([...Array.from({ length: 8 }, (_, from) => flood(from)), quiet()]);

  const rowsOf = (id: string) =>
    stores.db
      .selectFrom('call_record')
      .select(['subject', 'times', 'outcome', 'error'])
      .where('credential_id', '=', id)
      .execute();
  await vi.waitFor(async () => {
    const rows = await rowsOf(throttled.id);
    expect(rows.reduce((sum, { times }) => sum + times, 0)).toBe(4000);
  }, patient);
  const names = (await rowsOf(other.id)).map(({ subject }) => subject);
  expect(new Set(names).size).toBe(100);
  expect(names).toHaveLength(100);
  const own = await rowsOf(throttled.id);
  const refused = own.filter(({ outcome }) => outcome === 'refused');
  expect(refused.every(({ error }) => error === 'too_many_requests')).toBe(true);
  // Sixty names a minute have rows of their own, and the others share one.
  expect(own.length).toBeLessThan(300);
});

describe('124, 125: credentials of rows: only one that was admitted at a server is named there', () => {
  const rows = async () =>
    (await stores.db.selectFrom('call_record').selectAll().execute()).map((row) =>
      JSON.stringify(row),
    );

  test('124: unknown credential: a call with one leaves no row', async () => {
    const { key, id } = await newKey('acme/web');
    const before = (await rows()).length;
    const wrong = {
      'X-API-Key': [`${key.slice(0, -4)}AAAA`, 'mcp_unknown', 'x'.repeat(5000)],
      Authorization: ['Bearer unknown', `Bearer ${key}x`, 'Basic dW5rbm93bjp1bmtub3du'],
    };
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const { status } = await mcpCall(endpointOf('acme'), {
          body: tool('unknown_caller'),
          headers: { ...versions, [name]: value },
        });
        expect([401, 400, 431]).toContain(status);
      }
    }
    const nobody = await mcpCall(endpointOf('acme'), { body: tool('nobody'), headers: versions });
    // What is recorded after them shows that nothing waits to be written.
    await mcpCall(endpointOf('acme'), { key, body: tool('known_caller'), headers: versions });
    await vi.waitFor(
      async () => expect((await rows()).some((row) => row.includes(id))).toBe(true),
      patient,
    );

    expect(nobody.status).toBe(401);
    expect((await rows()).length).toBe(before + 1);
    expect((await rows()).filter((row) => /unknown_caller|nobody/.test(row))).toEqual([]);
  });

  test('125: credential elsewhere: one of another organization or server is not named where it is tried', async () => {
    const { key, id } = await newKey('rivals/web');
    await server.command(['server', 'create', 'rivals/second', '--http-url', upstream.url]);
    const token = await person('member@rivals.example').allow(clients['rivals'] ?? '');
    const before = (await rows()).length;
    const statuses: number[] = [];
    for (const path of ['acme/web', 'rivals/second', 'nobody/web']) {
      for (const credential of [{ key }, { token }]) {
        const call = { ...credential, body: tool('tried_elsewhere'), headers: versions };
        const { status, text } = await mcpCall(`${server.base}/mcp/${path}`, call);
        statuses.push(status);
        expect(text).not.toMatch(/rivals|member@/);
      }
    }
    await mcpCall(endpointOf('rivals'), { key, body: tool('at_home'), headers: versions });
    await vi.waitFor(
      async () => expect((await rows()).some((row) => row.includes(id))).toBe(true),
      patient,
    );

    expect(statuses.filter((status) => status !== 401 && status !== 404)).toEqual([]);
    expect((await rows()).length).toBe(before + 1);
    expect((await rows()).filter((row) => row.includes('tried_elsewhere'))).toEqual([]);
  });
});
