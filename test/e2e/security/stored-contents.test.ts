import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
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
const made = z.object({ key: z.string() });
const listed = z.object({
  items: z.array(z.object({ id: z.string(), tool: z.string().nullable() })),
});
const part = z.object({ text: z.string(), is_cut: z.boolean() }).nullable();
const contents = z.object({ arguments: part, result: part });
/** In every argument and result, so that no answer can contain them unnoticed. */
const [sent, answered] = ['marigold of the caller', 'snowdrop of the server'];
const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';
const secrets = [
  'hunter2secret',
  jwt,
  'ghp_0123456789abcdefghij0123456789abcdef',
  'kept between rounds',
];

const stack = new AsyncDisposableStack();
let upstream: RecordingUpstream;
let server: ServerProcess;
let stores: Stores;
const people: Record<string, CallingPerson> = {};
const keys: Record<string, string> = {};
let id: string;
let theirs: string;

beforeAll(async () => {
  upstream = stack.use(await recordingUpstream());
  upstream.answer = ({ body }, response) => {
    const rpcId = /"id"\s*:\s*(\d+)/.exec(body.toString())?.[1] ?? 'null';
    const content = [{ type: 'text', text: `${answered} ${secrets[1]}` }];
    const result = { content, requestState: secrets[3], _meta: { a: secrets[3] } };
    sendJson(response, `{"jsonrpc":"2.0","id":${rpcId},"result":${JSON.stringify(result)}}`);
  };
  server = stack.use(await serverProcess());
  for (const organization of ['acme', 'rivals']) {
    await server.command(['organization', 'create', organization]);
    const path = `${organization}/web`;
    await server.command(['server', 'create', path, '--http-url', upstream.url]);
    const limit = ['--limit', '1KB', '--days', '3'];
    await server.command(['server', 'set-contents', path, '--arguments', '--results', ...limit]);
    for (const name of ['owner', 'second', 'admin', 'member']) {
      const email = `${name}@${organization}.example`;
      const role = name === 'second' ? 'owner' : name;
      people[email] = await callingPerson(server, email, { organization, role });
    }
    const command = ['key', 'create', path, '--name', 'k', '--json'];
    keys[organization] = made.parse(JSON.parse(await server.command(command))).key;
    await call(organization, 'stored');
  }
  for (const email of ['admin@acme.example', 'admin@rivals.example']) {
    const [, organization = ''] = /@(\w+)/.exec(email) ?? [];
    await server.command(['user', 'grant-auditor', email, '--organization', organization]);
  }
  id = await recorded('acme', 'stored');
  theirs = await recorded('rivals', 'stored');
  stores = await openStores(server.dataDir);
  stack.defer(() => stores.close());
  await vi.waitFor(async () => {
    const rows = await stores.db.selectFrom('call_content').select('id').execute();
    if (rows.length < 4) throw new Error(`only ${rows.length} are stored`);
  }, patient);
});
afterAll(() => stack.disposeAsync());

function person(email: string): CallingPerson {
  const found = people[email];
  if (!found) throw new Error(`no person ${email}`);
  return found;
}

async function call(organization: string, name: string) {
  const [password, , token] = secrets;
  const given = { text: sent, password, note: `${token} ${'x'.repeat(2000)}` };
  const body = rpc('tools/call', { name, arguments: given, _meta: { progressToken: secrets[3] } });
  const { status } = await mcpCall(`${server.base}/mcp/${organization}/web`, {
    key: keys[organization] ?? '',
    body,
    headers: versions,
  });
  expect(status).toBe(200);
}

/** The id of the recorded call of a tool, once readers see it. */
function recorded(organization: string, name: string) {
  return vi.waitFor(async () => {
    const admin = person(`admin@${organization}.example`);
    const answer = await admin.ask(`/${organization}/calls?tool=${name}`);
    const [found] = listed.parse(await answer.json()).items;
    if (!found) throw new Error(`${name} is not recorded`);
    return found.id;
  }, patient);
}

async function read(email: string, path: string) {
  const answer = await person(email).ask(path, { method: 'POST' });
  return { status: answer.status, text: await answer.text() };
}

const told = (text: string) => [sent, answered, ...secrets].filter((word) => text.includes(word));

test('126: arguments: an auditor reads them, and each reading is an entry in the audit log', async () => {
  const { status, text } = await read('admin@acme.example', `/acme/calls/${id}/content`);
  const found = contents.parse(JSON.parse(text));
  const audit = await server.command([
    'audit',
    'list',
    'acme',
    '--action',
    'call.content',
    '--json',
  ]);

  expect(status).toBe(200);
  expect(JSON.parse(found.result?.text ?? '')).toEqual({
    content: [{ type: 'text', text: `${answered} [redacted]` }],
  });
  expect(JSON.parse(found.arguments?.text ?? '')).toMatchObject({
    text: sent,
    password: '[redacted]',
  });
  expect([found.arguments?.is_cut, found.result?.is_cut]).toEqual([true, false]);
  expect(audit).toContain(`call:${id}`);
});

test('126: arguments: no role implies the right to read them', async () => {
  for (const email of ['owner@acme.example', 'member@acme.example']) {
    const { status, text } = await read(email, `/acme/calls/${id}/content`);
    expect([email, status, told(text)]).toEqual([email, 403, []]);
  }
  const audit = await server.command([
    'audit',
    'list',
    'acme',
    '--action',
    'call.content',
    '--json',
  ]);
  expect(audit).toContain('refused');
});

test('126: arguments: those of another organization, as if the call did not exist', async () => {
  const auditor = 'admin@acme.example';
  const unknown = 'f'.repeat(24);
  const absent = await read(auditor, `/acme/calls/${unknown}/content`);

  expect(await read(auditor, `/acme/calls/${theirs}/content`)).toEqual(absent);
  expect(absent.status).toBe(404);
  expect(await read(auditor, `/rivals/calls/${theirs}/content`)).toEqual(
    await read(auditor, `/nobody/calls/${theirs}/content`),
  );
});

test('126: arguments: no credential for MCP reads them, and none turns them on', async () => {
  const path = `${server.base}/api/admin/organizations/acme/calls/${id}/content`;
  const key = keys['acme'] ?? '';
  for (const headers of [{ 'X-API-Key': key }, { Authorization: `Bearer ${key}` }, {}]) {
    const answer = await fetch(path, { method: 'POST', headers });
    expect([answer.status, told(await answer.text())]).toEqual([401, []]);
  }
  const scopes = ['--scope', 'mcp:server:read', '--scope', 'mcp:server:manage'];
  const command = ['key', 'create', 'acme/web', '--name', 'manages', ...scopes, '--json'];
  const manages = made.parse(JSON.parse(await server.command(command))).key;
  const change = (body: object) =>
    fetch(`${server.base}/api/servers/acme/web`, {
      method: 'PATCH',
      headers: { 'X-API-Key': manages, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  expect((await change({ title: 'Changed' })).status).toBe(200);
  for (const name of ['contents', 'callContents', 'call_contents', 'arguments', 'results']) {
    expect([name, (await change({ [name]: true })).ok]).toEqual([name, false]);
  }
  const asAdmin = await person('admin@acme.example').ask('/acme/servers/web/contents', {
    method: 'PATCH',
    body: { days: 300 },
  });
  expect(asAdmin.status).toBe(403);
});

test('126: arguments: not in lists, exports, pages or the audit log, also for an auditor', async () => {
  const texts = [
    await (await person('admin@acme.example').ask('/acme/calls?limit=200')).text(),
    await (await person('admin@acme.example').ask(`/acme/calls/${id}`)).text(),
    await server.command(['call', 'list', 'acme', '--json']),
    await server.command(['call', 'show', 'acme', id, '--json']),
    await server.command(['call', 'export', 'acme', '--csv']),
    await server.command(['call', 'export', 'acme']),
    await server.command(['audit', 'export', 'acme']),
  ];
  const { browser } = person('admin@acme.example');
  for (const path of ['', `/${id}`, '/export?format=csv', '/export?format=jsonl']) {
    const answer = await browser.get(`/dashboard/acme/activity${path}`);
    expect(answer.status).toBe(200);
    texts.push(await answer.text());
  }
  expect(texts.flatMap(told)).toEqual([]);
  expect(texts[7 + 1]).toContain('Show arguments and result');
});

test('126: arguments: a page without the right has no button, and refuses its form', async () => {
  const { browser } = person('owner@acme.example');
  const page = await browser.get(`/dashboard/acme/activity/${id}`);

  expect(page.status).toBe(200);
  expect(await page.text()).not.toContain('Show arguments and result');
});

test('126: arguments: people are told, on the consent page and in the list of their servers', async () => {
  const { browser } = person('member@acme.example');
  const words = [
    '--redirect-uri',
    'http://127.0.0.1/callback',
    '--scope',
    'mcp:tools:read',
    '--json',
  ];
  const client = await server.command(['client', 'create', 'acme/web', '--name', 'app', ...words]);
  const query = new URLSearchParams({
    client_id: z.object({ client_id: z.string() }).parse(JSON.parse(client)).client_id,
    response_type: 'code',
    redirect_uri: 'http://127.0.0.1/callback',
    scope: 'mcp:tools:read',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  });
  const consent = await browser.get(`/oauth/consent?${query.toString()}`);
  const list = await browser.get('/dashboard/acme');
  const sentence =
    /stores the arguments and results of the calls to this server for 3 days. Only people there with the Auditor right can read them/;

  expect(consent.status).toBe(200);
  expect(await consent.text()).toMatch(sentence);
  expect(await list.text()).toMatch(sentence);
});

test('126: arguments: an owner who takes the right is reported to all owners, also after giving it back', async () => {
  const owner = person('owner@acme.example');
  const found = await owner.ask('/acme/people?limit=200');
  const listedPeople = z.object({
    items: z.array(z.object({ id: z.string(), email: z.string() })),
  });
  const { items } = listedPeople.parse(await found.json());
  const userId = items.find(({ email }) => email === owner.email)?.id;
  const home = `/dashboard/acme/people/${userId}`;
  const byAdmin = await person('admin@acme.example').browser.post(`${home}/grant-auditor`, {
    csrf_token: await person('admin@acme.example').browser.csrfToken('/account'),
  });
  const granted = await owner.browser.submit(`${home}/grant-auditor`, {});
  const own = await read(owner.email, `/acme/calls/${id}/content`);
  const revoked = await owner.browser.submit(`${home}/revoke-auditor`, {});
  const after = await read(owner.email, `/acme/calls/${id}/content`);
  const overview = await (
    await person('second@acme.example').browser.get('/dashboard/acme')
  ).text();
  const forAdmins = await (
    await person('admin@acme.example').browser.get('/dashboard/acme')
  ).text();

  expect([byAdmin.status, granted.status, own.status]).toEqual([403, 303, 200]);
  expect([revoked.status, after.status]).toEqual([303, 403]);
  expect(overview).toContain('New auditors');
  expect(overview).toContain('To themselves');
  expect(forAdmins).not.toContain('New auditors');
});

test('127: secrets in arguments and results are not stored, nor what the protocol keeps', async () => {
  const text = await server.command(['call', 'content', 'acme', id, '--json']);

  expect(text).toContain(sent);
  expect(secrets.filter((secret) => text.includes(secret))).toEqual([]);
  expect(text).not.toMatch(/requestState|_meta|progressToken/);
});

test('128: arguments and results are sealed: no file of the server holds their text', async () => {
  await server.command(['backup', join(server.dataDir, 'backup.db')]);
  const files = readdirSync(server.dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const found = files.filter((file) => {
    const text = readFileSync(file, 'latin1');
    return text.includes(sent) || text.includes(answered);
  });

  expect(files.some((file) => file.endsWith('backup.db'))).toBe(true);
  expect(found).toEqual([]);
});

test('128: what is stored of one call cannot be read as that of another', async () => {
  const [row, other] = [theirs, id].map((one) =>
    stores.db
      .selectFrom('call_content')
      .selectAll()
      .where('id', '=', one)
      .where('kind', '=', 'result'),
  );
  const { sealed } = (await row?.executeTakeFirstOrThrow()) ?? { sealed: '' };
  const own = await other?.executeTakeFirstOrThrow();
  const put = (text: string) =>
    stores.db
      .updateTable('call_content')
      .set({ sealed: text })
      .where('id', '=', id)
      .where('kind', '=', 'result')
      .execute();
  await put(sealed);
  const { status, text } = await read('admin@acme.example', `/acme/calls/${id}/content`);
  await put(own?.sealed ?? '');

  expect(status).toBe(500);
  expect(told(text)).toEqual([]);
});

test('126: arguments: after they are turned off, no more are stored, and deleting removes the others at once', async () => {
  await server.command(['server', 'set-contents', 'acme/web', '--off']);
  await call('acme', 'not_stored');
  const later = await recorded('acme', 'not_stored');
  const count = async (one: string) =>
    (await stores.db.selectFrom('call_content').select('id').where('id', '=', one).execute())
      .length;

  expect([await count(id), await count(later)]).toEqual([2, 0]);
  await server.command(['server', 'set-contents', 'acme/web', '--delete']);
  expect(await count(id)).toBe(0);
  const { text } = await read('admin@acme.example', `/acme/calls/${id}/content`);
  expect(JSON.parse(text)).toEqual({ arguments: null, result: null });
});
