import { randomBytes } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { mintSecret } from '#server/secrets/secrets';
import { callingPerson, type CallingPerson } from '#support/calling-person';
import { fixtureUpstream, type FixtureUpstream } from '#support/fixture-upstream';
import { patient } from '#support/patient';
import { askScim, scimDirectory, type ScimDirectory } from '#support/scim-directory';
import { serverProcess, type ServerProcess } from '#support/server-process';

let upstream: FixtureUpstream;
let server: ServerProcess;
let clientId = '';
/** The directories of acme and other. */
let acme: ScimDirectory;
let other: ScimDirectory;

/** Olivia owns acme and Otto owns other. `acme/fixture` leads to an upstream. */
beforeAll(async () => {
  upstream = await fixtureUpstream();
  server = await serverProcess({ args: ['--trust-proxy', '127.0.0.1'] });
  for (const [name, owner] of [
    ['acme', 'olivia'],
    ['other', 'otto'],
  ] as const) {
    await server.command(['organization', 'create', name]);
    const person = [`${owner}@${name}.example`, '--organization', name, '--role', 'owner'];
    await server.command(['user', 'create', ...person], 'correct horse battery\n');
  }
  await server.command(['server', 'create', 'acme/fixture', '--http-url', upstream.url]);
  const client = ['--name', 'Claude', '--redirect-uri', 'http://127.0.0.1/callback'];
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const made = await command('client', 'create', 'acme/fixture', ...client, ...scopes);
  clientId = z.object({ client_id: z.string() }).parse(made).client_id;
  acme = await directory('acme', 'acme.example');
  other = await directory('other', 'other.example');
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

async function command(...words: string[]): Promise<unknown> {
  return JSON.parse(await server.command([...words, '--json']));
}

const directory = (organization: string, domain: string) =>
  scimDirectory({ base: server.base, command }, organization, domain);

let addresses = 0;
/** Another address for each request that must not be counted against the others. */
const nextAddress = () => {
  addresses += 1;
  return `10.0.${Math.floor(addresses / 250)}.${(addresses % 250) + 1}`;
};

let people = 0;
/** A new member of acme, who is provisioned from then on. */
async function provisioned(role: 'owner' | 'admin' | 'member' = 'member') {
  people += 1;
  const email = `person-${people}@acme.example`;
  const person = await callingPerson(server, email, { organization: 'acme', role });
  return { email, person, id: await acme.addUser(email) };
}

const membersSchema = z.array(z.object({ email: z.string(), role: z.string(), id: z.string() }));
const membersOf = async (organization: string) =>
  membersSchema.parse(await command('user', 'members', organization));
const isMember = async (organization: string, email: string) =>
  (await membersOf(organization)).some((member) => member.email === email);
const call = async (credential: Record<string, string>) => {
  const response = await fetch(`${server.base}/mcp/acme/fixture`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...credential },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  return { status: response.status, text: await response.text() };
};
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Every kind of request, on an organization and things of it. */
const requests = (user: string, group: string) =>
  [
    ['GET', '/Users'],
    ['POST', '/Users', { userName: 'attack@acme.example' }],
    ['GET', `/Users/${user}`],
    ['PUT', `/Users/${user}`, { userName: 'attack@acme.example' }],
    ['PATCH', `/Users/${user}`, { Operations: [{ op: 'replace', value: { active: false } }] }],
    ['DELETE', `/Users/${user}`],
    ['GET', '/Groups'],
    ['POST', '/Groups', { displayName: 'Attack' }],
    ['GET', `/Groups/${group}`],
    ['PUT', `/Groups/${group}`, { displayName: 'Attack' }],
    ['PATCH', `/Groups/${group}`, { Operations: [{ op: 'remove', path: 'members' }] }],
    ['DELETE', `/Groups/${group}`],
    ['POST', '/Users/.search', { filter: 'userName pr' }],
    ['POST', '/Groups/.search', {}],
    ['POST', '/.search', {}],
    ['GET', '/ServiceProviderConfig'],
    ['GET', '/Schemas'],
    ['GET', '/ResourceTypes'],
    ['POST', '/Bulk', {}],
    ['GET', '/nothing'],
  ] as const;

test('164: SCIM: a token of another organization opens nothing, on any path', async () => {
  const { email, id } = await provisioned();
  const group = await acme.addGroup('Only acme', [id]);
  const answers = [];
  for (const [method, path, body] of requests(id, group)) {
    const url = `${server.base}/scim/v2/acme${path}`;
    answers.push(
      (await askScim(url, { method, token: other.token, body, address: nextAddress() })).status,
    );
  }

  expect(answers).toEqual(answers.map(() => 401));
  expect(await isMember('acme', email)).toBe(true);
  expect((await acme.ask('GET', `/Groups/${group}`)).json).toMatchObject({
    members: [{ value: id }],
  });
});

test('164: SCIM: ids of another organization are unknown, and cannot be placed in a group', async () => {
  const { email, id } = await provisioned();
  const theirs = await acme.addGroup('Theirs', [id]);
  const answers = [];
  for (const [method, path, body] of requests(id, theirs)) {
    if (!path.includes(id) && !path.includes(theirs)) continue;
    answers.push((await other.ask(method, path, body)).status);
  }
  const placed = await other.ask('POST', '/Groups', {
    displayName: 'Placed',
    members: [{ value: id }],
  });

  expect(answers).toEqual(answers.map(() => 404));
  expect([placed.status, placed.json['scimType']]).toEqual([400, 'invalidValue']);
  expect(await isMember('acme', email)).toBe(true);
});

test('164: SCIM: a revoked token opens nothing from the next request on', async () => {
  await server.command(['organization', 'create', 'brief']);
  const brief = await directory('brief', 'brief.example');
  const shown = z
    .object({ tokens: z.array(z.string()) })
    .parse(await command('scim', 'show', 'brief'));
  const before = await brief.ask('GET', '/Users');
  await command('scim', 'revoke-token', 'brief', shown.tokens[0] ?? '');

  expect(before.status).toBe(200);
  expect((await brief.ask('GET', '/Users')).status).toBe(401);
  expect((await brief.ask('POST', '/Users', { userName: 'late@brief.example' })).status).toBe(401);
});

test.each([
  ['parentheses', '('.repeat(50_000)],
  ['brackets', 'emails['.repeat(1000)],
  ['negations', 'not ('.repeat(1000)],
  ['conditions', Array.from({ length: 60 }, () => 'id pr').join(' or ')],
  ['length', `userName eq "${'a'.repeat(3000)}"`],
  ['quotes', `userName eq "${'\\"'.repeat(900)}`],
])('165: SCIM: a filter of too many %s is refused', async (_, filter) => {
  // What a header can hold; more is refused before.
  const text = encodeURIComponent(filter).slice(0, 7000);
  const answer = await acme.ask('GET', `/Users?filter=${text}`);

  expect(answer.status).toBe(400);
  expect(answer.json).toMatchObject({ scimType: 'invalidFilter', status: '400' });
});

test.each([
  [
    'a path of many levels',
    { Operations: [{ op: 'remove', path: `emails[${'('.repeat(1000)}` }] },
    400,
  ],
  [
    'a long path',
    { Operations: [{ op: 'remove', path: `emails[value eq "${'a'.repeat(5000)}"]` }] },
    400,
  ],
  [
    'too many operations',
    { Operations: Array.from({ length: 1001 }, () => ({ op: 'remove', path: 'title' })) },
    400,
  ],
  [
    'too many members',
    {
      Operations: [
        { op: 'add', path: 'members', value: Array.from({ length: 10_001 }, () => 'su_x') },
      ],
    },
    413,
  ],
  [
    'a body over the limit',
    { Operations: [{ op: 'add', path: 'x', value: 'x'.repeat(2_200_000) }] },
    413,
  ],
])('165: SCIM: PATCH with %s is refused', async (_, body, status) => {
  const group = await acme.addGroup(`Bombs ${randomBytes(4).toString('hex')}`);
  const answer = await acme.ask('PATCH', `/Groups/${group}`, body);

  expect(answer.status).toBe(status);
});

test('166: SCIM: another address or name changes no account and no other organization', async () => {
  const { email, id } = await provisioned();
  await server.command(['user', 'create', email, '--organization', 'other', '--role', 'member']);
  const stolen = { userName: 'stolen@acme.example', active: true };
  await acme.ask('PUT', `/Users/${id}`, {
    ...stolen,
    emails: [{ value: 'stolen@acme.example', primary: true }],
    displayName: 'Somebody else',
  });
  await acme.ask('PATCH', `/Users/${id}`, {
    Operations: [
      { op: 'replace', path: 'emails[type eq "work"].value', value: 'worse@acme.example' },
    ],
  });

  expect(await isMember('acme', email)).toBe(true);
  expect(await isMember('acme', 'stolen@acme.example')).toBe(false);
  await acme.setActive(id, false);
  expect(await isMember('acme', email)).toBe(false);
  expect(await isMember('other', email)).toBe(true);
  await acme.ask('DELETE', `/Users/${id}`);
  expect(await isMember('other', email)).toBe(true);
});

test('166: SCIM: a deactivated person keeps what they have in another organization', async () => {
  const { email, person, id } = await provisioned();
  await server.command(['user', 'create', email, '--organization', 'other', '--role', 'viewer']);
  await acme.setActive(id, false);

  expect((await person.ask('/acme')).status).toBe(404);
  expect((await person.ask('/other')).status).toBe(200);
  expect((await person.browser.get('/dashboard/acme')).status).toBe(404);
  expect((await person.browser.get('/dashboard/other')).status).toBe(200);
});

test('189: SCIM: a personal token from before a deactivation does not open the organization again', async () => {
  const { email, person, id } = await provisioned();
  await server.command(['user', 'create', email, '--organization', 'other', '--role', 'viewer']);
  const before = await person.ask('/acme');
  await acme.setActive(id, false);
  const activated = await acme.setActive(id, true);

  expect([before.status, activated.status]).toEqual([200, 200]);
  expect(await isMember('acme', email)).toBe(true);
  expect((await person.ask('/acme')).status).toBe(404);
  expect((await person.ask('/other')).status).toBe(200);
  expect((await person.browser.get('/dashboard/acme')).status).toBe(200);
});

test('166: SCIM: takes no address of a domain that is not proved, and no account of someone elsewhere', async () => {
  const taken = 'otto@other.example';
  const foreign = await acme.ask('POST', '/Users', { userName: 'ceo@other.example' });
  const account = await acme.ask('POST', '/Users', { userName: taken });

  expect([foreign.status, account.status]).toEqual([201, 201]);
  expect(await isMember('acme', 'ceo@other.example')).toBe(false);
  expect(await isMember('acme', taken)).toBe(false);
  const everyone = JSON.stringify(await command('user', 'list'));
  expect(everyone).not.toContain('ceo@other.example');
});

test('166: SCIM: makes no owner', async () => {
  const made = await acme.ask('POST', '/Users', {
    userName: 'boss@acme.example',
    roles: [{ value: 'owner' }],
    userType: 'owner',
    role: 'owner',
  });

  expect(made.status).toBe(201);
  expect(await membersOf('acme')).toContainEqual(
    expect.objectContaining({ email: 'boss@acme.example', role: 'member' }),
  );
});

test('167: SCIM: the last owner stays, whatever the directory sends', async () => {
  const id = await acme.addUser('olivia@acme.example');
  const refused = [
    await acme.setActive(id, false),
    await acme.ask('PUT', `/Users/${id}`, { userName: 'olivia@acme.example', active: 'False' }),
    await acme.ask('DELETE', `/Users/${id}`),
  ];

  expect(refused.map(({ status }) => status)).toEqual([409, 409, 409]);
  expect((await acme.ask('GET', `/Users/${id}`)).json).toMatchObject({ active: true });
  expect(await membersOf('acme')).toContainEqual(
    expect.objectContaining({ email: 'olivia@acme.example', role: 'owner' }),
  );
});

test('167: SCIM: of owners who are deactivated at the same time, one stays', async () => {
  await server.command(['organization', 'create', 'pair']);
  const pair = await directory('pair', 'pair.example');
  const ids = [];
  for (const name of ['one', 'two']) {
    const person = [`${name}@pair.example`, '--organization', 'pair', '--role', 'owner'];
    await server.command(['user', 'create', ...person], 'correct horse battery\n');
    ids.push(await pair.addUser(`${name}@pair.example`));
  }
  const answers = await Promise.all(ids.map((id) => pair.setActive(id, false)));

  expect(answers.map(({ status }) => status).toSorted((one, two) => one - two)).toEqual([200, 409]);
  expect((await membersOf('pair')).map(({ role }) => role)).toEqual(['owner']);
});

test.each<[string, (person: CallingPerson) => Promise<() => Promise<number>>, number, number]>([
  [
    'session',
    async ({ browser }) =>
      async () =>
        (await browser.get('/account')).status,
    200,
    303,
  ],
  [
    'personal token',
    async ({ ask }) =>
      async () =>
        (await ask('')).status,
    200,
    401,
  ],
  [
    'access token of an application',
    async ({ allow }) => {
      const token = await allow(clientId);
      return async () => (await call(bearer(token))).status;
    },
    200,
    401,
  ],
])(
  '168: SCIM: deactivation ends the %s with the next request, and activation does not bring it back',
  async (_, prepare, works, ended) => {
    const { person, id } = await provisioned();
    const use = await prepare(person);
    const before = await use();
    const deactivated = await acme.setActive(id, false);
    const after = await use();
    await acme.setActive(id, true);

    expect([before, deactivated.status, after, await use()]).toEqual([works, 200, ended, ended]);
  },
);

test('168: SCIM: deactivation ends an open stream', async () => {
  const { person, id } = await provisioned();
  const token = await person.allow(clientId);
  const before = upstream.openStreams();
  const stream = await fetch(`${server.base}/mcp/acme/fixture`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
      ...bearer(token),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'endless', arguments: {} },
    }),
  });
  const reader = stream.body?.getReader();
  const first = await reader?.read();
  const ended = (async () => {
    while (!(await reader?.read())?.done);
  })().catch(() => undefined);
  await acme.setActive(id, false);
  await ended;

  expect(first?.value?.length).toBeGreaterThan(0);
  await expect.poll(() => upstream.openStreams(), patient).toBe(before);
  expect((await call(bearer(token))).status).toBe(401);
});

test('168: SCIM: deletion and replacement end access as deactivation does', async () => {
  const deleted = await provisioned();
  const replaced = await provisioned();
  const tokens = [await deleted.person.allow(clientId), await replaced.person.allow(clientId)];
  await acme.ask('DELETE', `/Users/${deleted.id}`);
  await acme.ask('PUT', `/Users/${replaced.id}`, { userName: replaced.email, active: false });
  const statuses = [];
  for (const token of tokens) statuses.push((await call(bearer(token))).status);

  expect(statuses).toEqual([401, 401]);
});

test('168: SCIM: keys and clients that the person created are suspended, until someone takes them over', async () => {
  const { person, id } = await provisioned('admin');
  const keeper = await provisioned('admin');
  const path = '/acme/servers/fixture';
  const make = async (what: string, body: object) =>
    z
      .looseObject({})
      .parse(await (await person.ask(`${path}/${what}`, { method: 'POST', body })).json());
  const key = await make('keys', { name: 'nightly' });
  const scopes = ['mcp:tools:read'];
  const client = await make('clients', { name: 'flow', scopes, redirect_uris: [] });
  const use = async () => (await call({ 'x-api-key': String(key['key']) })).status;
  const tokenStatus = async () => {
    const form = {
      grant_type: 'client_credentials',
      client_id: String(client['client_id']),
      client_secret: String(client['client_secret']),
    };
    const body = new URLSearchParams(form);
    return (await fetch(`${server.base}/api/oauth/token`, { method: 'POST', body })).status;
  };
  const before = [await use(), await tokenStatus()];
  await acme.setActive(id, false);
  const suspended = await call({ 'x-api-key': String(key['key']) });
  const refused = await tokenStatus();
  const listed = await (await keeper.person.ask('/acme/ownerless')).text();
  for (const one of [String(key['id']), String(client['client_id'])]) {
    await keeper.person.ask(`/acme/ownerless/${one}`, { method: 'POST', body: {} });
  }

  expect(before).toEqual([200, 200]);
  expect([suspended.status, refused]).toEqual([401, 400]);
  expect(suspended.text).toContain('suspended');
  expect(listed).toContain(String(key['id']));
  expect(listed).not.toContain(String(key['key']));
  expect([await use(), await tokenStatus()]).toEqual([200, 200]);
});

test('168: SCIM: the audit log names the directory and the person, and no secret', async () => {
  const { id } = await provisioned();
  await acme.setActive(id, false);
  const log = await server.command(['audit', 'list', 'acme', '--limit', '200', '--json']);

  expect(log).toMatch(/"actor": ?"scim"/);
  expect(log).toContain('scim.deactivate-user');
  expect(log).not.toContain(acme.token);
  expect(server.program.stdout + server.program.stderr).not.toContain(acme.token);
});

test('169: SCIM: an unknown organization is answered exactly like one with a wrong token', async () => {
  const url = (organization: string, path: string) =>
    `${server.base}/scim/v2/${organization}${path}`;
  const answerOf = async (
    organization: string,
    [method, path, body]: readonly [string, string, unknown?],
    token: string | undefined,
  ) => {
    const { status, headers, json } = await askScim(url(organization, path), {
      method,
      token,
      body,
      address: nextAddress(),
    });
    const named = [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name));
    return { status, named, json };
  };
  const wrong = mintSecret('scim_');
  for (const request of requests('su_x', 'group_x')) {
    for (const token of [undefined, 'nonsense', wrong]) {
      const known = await answerOf('acme', request, token);
      const unknown = await answerOf('nobody', request, token);

      expect(known.status).toBe(401);
      expect(unknown).toEqual(known);
    }
  }
});
