import { expect, test } from 'vitest';

import { findClient, insertClient, revokeClient, updateClient } from '#server/db/clients';
import { explainRights, type RightsSubject } from '#server/db/explained-rights';
import { setGrantTools } from '#server/db/grants';
import { deleteGroup, insertGroup, insertGroupMember } from '#server/db/groups';
import { insertKey, revokeKey, setKeyTools } from '#server/db/keys';
import { removeMember, insertUser } from '#server/db/people';
import { previewToolRules, type RightsPreview } from '#server/db/rights-preview';
import { setServerAccess } from '#server/db/server-access';
import { findServer, updateServer } from '#server/db/servers';
import { noteTools } from '#support/listed-tools';
import {
  changeToolRules,
  mostToolRules,
  noToolRules,
  rulesSeen,
  type ToolRulesChange,
} from '#server/db/tool-rules';
import type { Db } from '#server/db/transaction';
import type { AccessRules } from '#server/model/tool-rights';
import { toolDefinition } from '#server/tools/definition';
import { onEachDatabase } from '#support/databases';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';

const now = madeAt + 60;
const target = 'target_sales';
const finance = new Set(['group_finance']);
const everyScope = ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'] as const;

const tools = ['lookup', 'refund', 'transfer'].map((name) => {
  const made = toolDefinition({ name, inputSchema: { type: 'object' } });
  if (!made) throw new Error('no tool');
  return made;
});

/** `acme/sales` with three tools; Dana of the group finance, Erin of none; and another organization. */
async function prepared(db: Db): Promise<void> {
  await makeServer({ db });
  await makeServer({ db }, 'books', { organization: 'other' });
  await noteTools(db, target, tools, madeAt);
  for (const [id, organizationId] of [
    ['group_finance', 'org_acme'],
    ['group_legal', 'org_acme'],
    ['group_foreign', 'org_other'],
  ] as const) {
    await insertGroup(db, { id, organizationId, name: id, createdAt: madeAt });
  }
  for (const name of ['dana', 'erin']) {
    const user = { id: `user_${name}`, email: `${name}@acme.example`, createdAt: madeAt };
    await insertUser(db, user, { organizationId: 'org_acme', role: 'member' });
  }
  await insertGroupMember(db, 'org_acme', 'group_finance', 'user_dana');
}

/** A grant of a person to the client, which is stored if it is not yet. */
async function insertGrant(db: Db, person: string, clientId = 'client_a'): Promise<void> {
  if (!(await findClient(db, clientId))) {
    await insertClient(db, newClient({ id: clientId, scopes: everyScope, secretHash: clientId }));
  }
  const grant = {
    id: `grant_${person}_${clientId}`,
    person_id: `user_${person}`,
    client_id: clientId,
    endpoint_id: 'srv_sales',
    scopes: JSON.stringify(everyScope),
    redirect_host: '127.0.0.1',
    authenticated: 0,
    created_at: madeAt,
    expires_at: now + 3600,
    revoked_at: null,
  };
  await db.insertInto('oauth_grant').values(grant).execute();
}

async function salesServer(db: Db) {
  const server = await findServer(db, 'acme', 'sales');
  if (!server) throw new Error('no server');
  return server;
}

const rulesNow = async (db: Db): Promise<AccessRules | undefined> =>
  (await salesServer(db)).target.rules;

const forTool = (
  name: string,
  audience: 'everyone' | ReadonlySet<string> | undefined,
): ToolRulesChange => ({ named: [{ kind: 'tool', name, audience }] });

async function explained(db: Db, subject: RightsSubject) {
  const found = await explainRights(db, await salesServer(db), subject, now);
  return found && Object.fromEntries(found.items.map(({ name, reason }) => [name, reason]));
}

const dana = { type: 'person', userId: 'user_dana' } as const;
const erin = { type: 'person', userId: 'user_erin' } as const;
const key = { type: 'key', keyId: 'key_a' } as const;

await onEachDatabase('tool rules', ({ open }) => {
  test('a rule is stored and removed, and each change raises the revision of the server', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    const { revision: first = 0 } = await salesServer(db);

    const restricted = await changeToolRules(db, target, forTool('transfer', finance));
    const stored = await rulesNow(db);
    await changeToolRules(db, target, forTool('transfer', finance));
    const { revision: second } = await salesServer(db);
    await changeToolRules(db, target, forTool('transfer', undefined));

    expect(restricted).toBe('done');
    expect(stored?.named.tool).toEqual(new Map([['transfer', finance]]));
    expect(second).toBe(first + 1);
    expect(await salesServer(db)).toMatchObject({ revision: first + 2 });
    expect(await rulesNow(db)).toBeUndefined();
  });

  test('of two administrators who saw the same rules, one changes them, and the other is told', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    const seen = rulesSeen(noToolRules);

    const outcomes = await Promise.all([
      changeToolRules(db, target, forTool('transfer', finance), seen),
      changeToolRules(db, target, { others: { tool: finance } }, seen),
    ]);
    const after = (await rulesNow(db)) ?? noToolRules;
    const again = await changeToolRules(db, target, forTool('other', finance), rulesSeen(after));

    expect(outcomes.toSorted()).toEqual(['done', 'stale']);
    expect(again).toBe('done');
  });

  test('a group of another organization, a missing one and a missing server are refused', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);

    const outcomes = [
      await changeToolRules(db, target, forTool('transfer', new Set(['group_foreign']))),
      await changeToolRules(db, target, { others: { tool: new Set(['group_none']) } }),
      await changeToolRules(db, 'target_none', forTool('transfer', finance)),
    ];

    expect(outcomes).toEqual(['unknown-group', 'unknown-group', 'unknown-server']);
    expect(await rulesNow(db)).toBeUndefined();
  });

  test('a server has a limited number of rules', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    const named = Array.from({ length: mostToolRules }, (_, at) => ({
      kind: 'resource' as const,
      name: `file:///${at}`,
      audience: finance,
    }));

    const most = await changeToolRules(db, target, { named });
    const more = await changeToolRules(db, target, forTool('transfer', finance));

    expect([most, more]).toEqual(['done', 'too-many']);
    expect((await rulesNow(db))?.named.tool.size).toBe(0);
  });

  test('a changed default applies to what comes later, and known tools keep what they had', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, forTool('transfer', finance));
    await changeToolRules(db, target, { others: { tool: new Set(['group_legal']) } });
    const later = toolDefinition({ name: 'wire', inputSchema: { type: 'object' } });
    await noteTools(db, target, later ? [...tools, later] : [], madeAt);
    const closed = await explained(db, dana);
    await changeToolRules(db, target, { others: { tool: 'everyone' } });

    expect(closed).toEqual({
      lookup: 'everyone',
      refund: 'everyone',
      transfer: 'group',
      wire: 'other_group',
    });
    expect(await explained(db, dana)).toEqual(closed);
  });

  test('rules that only let everyone use something are not kept once nothing is restricted', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, { others: { tool: finance } });
    await changeToolRules(db, target, { others: { tool: 'everyone' } });

    expect(await rulesNow(db)).toBeUndefined();
  });

  test('changes by several connections at the same time are all kept', async () => {
    await using database = await open();
    await prepared(database.db);
    const others = await Promise.all([1, 2, 3].map(() => database.connectAgain()));

    await Promise.all(
      others.map(({ db }, at) => changeToolRules(db, target, forTool(`tool_${at}`, finance))),
    );

    expect([...((await rulesNow(database.db))?.named.tool.keys() ?? [])].toSorted()).toEqual([
      'tool_0',
      'tool_1',
      'tool_2',
    ]);
  });

  test('a group that a rule names cannot be deleted until the rule is gone', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, { others: { prompt: new Set(['group_legal']) } });

    const inUse = await deleteGroup(db, 'org_acme', 'group_legal');
    await changeToolRules(db, target, { others: { prompt: 'everyone' } });

    expect([inUse, await deleteGroup(db, 'org_acme', 'group_legal')]).toEqual(['in-use', 'done']);
  });
});

await onEachDatabase('explained rights', ({ open }) => {
  test('a person uses a restricted tool through a group only', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, forTool('transfer', finance));
    await updateServer(db, 'srv_sales', { hiddenTools: ['refund', 'gone'] });

    expect(await explained(db, dana)).toEqual({
      gone: 'hidden',
      lookup: 'everyone',
      refund: 'hidden',
      transfer: 'group',
    });
    expect((await explained(db, erin))?.['transfer']).toBe('other_group');
  });

  test('a key uses a restricted tool only if it is chosen for it by name', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, forTool('transfer', finance));
    await insertKey(db, newKey({ scopes: everyScope }));

    const reasons = [];
    const chosen = { type: 'chosen', tools: ['transfer'], prompts: [], resources: [] } as const;
    for (const selection of [{ type: 'all' }, chosen, { type: 'read-only' }] as const) {
      await setKeyTools(db, 'key_a', selection);
      const { lookup, transfer } = { ...(await explained(db, key)) };
      reasons.push([lookup, transfer]);
    }

    expect(reasons).toEqual([
      ['everyone', 'no_person'],
      ['not_chosen', 'chosen'],
      ['not_read_only', 'not_read_only'],
    ]);
  });

  test('a grant may use what its person, its client and itself may use', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, forTool('transfer', finance));
    await insertGrant(db, 'dana');
    const grant = { type: 'grant', grantId: 'grant_dana_client_a' } as const;
    const only = (...names: string[]) =>
      ({ type: 'chosen', tools: names, prompts: [], resources: [] }) as const;
    const whole = await explained(db, grant);
    await updateClient(db, 'client_a', { tools: only('lookup', 'transfer') });
    const ofClient = await explained(db, grant);
    await setGrantTools(db, grant.grantId, only('refund', 'transfer'));

    expect(whole).toEqual({ lookup: 'everyone', refund: 'everyone', transfer: 'group' });
    expect(ofClient).toEqual({ lookup: 'everyone', refund: 'not_chosen', transfer: 'group' });
    expect(await explained(db, grant)).toEqual({
      lookup: 'not_chosen',
      refund: 'not_chosen',
      transfer: 'group',
    });
  });

  test('a scope that is missing is named as the reason', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await insertKey(db, newKey({ scopes: ['mcp:tools:read'] }));

    const found = await explainRights(db, await salesServer(db), key, now);

    expect(found?.items[0]).toEqual({
      kind: 'tool',
      name: 'lookup',
      allowed: false,
      reason: 'no_scope',
    });
  });

  test.each<[string, RightsSubject, (db: Db) => Promise<unknown>]>([
    [
      'no_server_group',
      erin,
      (db) => setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_finance'] }),
    ],
    ['server_disabled', dana, (db) => updateServer(db, 'srv_sales', { disabledAt: now })],
    [
      'organization_disabled',
      dana,
      (db) => db.updateTable('organization').set({ disabled_at: now }).execute(),
    ],
    [
      'revoked',
      key,
      async (db) => {
        await insertKey(db, newKey());
        await revokeKey(db, 'key_a', now);
      },
    ],
    ['expired', key, (db) => insertKey(db, newKey({ expiresAt: now }))],
    [
      'other_server',
      key,
      async (db) => {
        await makeServer({ db }, 'support');
        await insertKey(db, newKey({ owner: { type: 'server', serverId: 'srv_support' } }));
      },
    ],
    [
      'owner_left',
      key,
      async (db) => {
        await insertKey(db, newKey());
        await db.updateTable('api_key').set({ suspended_at: now }).execute();
      },
    ],
    [
      'only_for_people',
      { type: 'client', clientId: 'client_open' },
      (db) => insertClient(db, newClient({ id: 'client_open', serverId: undefined })),
    ],
    [
      'revoked',
      { type: 'grant', grantId: 'grant_dana_client_a' },
      async (db) => {
        await insertGrant(db, 'dana');
        await revokeClient(db, 'client_a', now);
      },
    ],
    [
      'expired',
      { type: 'grant', grantId: 'grant_dana_client_a' },
      async (db) => {
        await insertGrant(db, 'dana');
        await db.updateTable('oauth_grant').set({ expires_at: now }).execute();
      },
    ],
    [
      'no_server_group',
      { type: 'grant', grantId: 'grant_erin_client_a' },
      async (db) => {
        await insertGrant(db, 'erin');
        const groupIds = ['group_finance'];
        await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds });
      },
    ],
  ])(
    'a caller that cannot use the server at all is told why: %s, of %j',
    async (why, subject, prepare) => {
      await using database = await open();
      const { db } = database;
      await prepared(db);
      await prepare(db);

      const found = await explainRights(db, await salesServer(db), subject, now);

      expect(found?.excluded).toBe(why);
      expect(found?.items.map(({ allowed, reason }) => [allowed, reason])).toEqual(
        tools.map(() => [false, why]),
      );
    },
  );

  test('nothing is said about what belongs to another organization', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await insertKey(db, newKey({ owner: { type: 'server', serverId: 'srv_books' } }));
    await insertClient(db, newClient({ serverId: 'srv_books' }));
    await removeMember(db, 'org_acme', 'user_erin', 'member');

    const found = [
      await explained(db, key),
      await explained(db, { type: 'client', clientId: 'client_a' }),
      await explained(db, { type: 'grant', grantId: 'grant_none' }),
      await explained(db, erin),
    ];

    expect(found).toEqual([undefined, undefined, undefined, undefined]);
  });
});

const mostShown = { callers: 2, items: 10 };

/** The names of the callers who gain or lose something by a change, each with its kind and the items. */
function namesIn(preview: RightsPreview) {
  const names = (of: 'gains' | 'loses') =>
    Object.entries(preview[of]).flatMap(([kind, { callers }]) =>
      callers.map(({ name, items }) => `${kind}: ${name}: ${items.map((one) => one.name).join()}`),
    );
  return { gains: names('gains'), loses: names('loses') };
}

await onEachDatabase('a preview of tool rules', ({ open }) => {
  test('says which people, keys, clients and grants lose a tool, and changes nothing', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await insertKey(db, newKey({ name: 'nightly', scopes: everyScope }));
    await insertKey(db, newKey({ id: 'key_b', hash: 'b', name: 'reader' }));
    const chosen = { type: 'chosen', tools: ['transfer'], prompts: [], resources: [] } as const;
    await insertKey(db, newKey({ id: 'key_c', hash: 'c', scopes: everyScope, tools: chosen }));
    await insertKey(db, newKey({ id: 'key_d', hash: 'd', scopes: everyScope, expiresAt: now }));
    await insertGrant(db, 'dana');
    await insertGrant(db, 'erin');

    const change = forTool('transfer', finance);
    const preview = await previewToolRules(db, await salesServer(db), change, now, mostShown);

    expect(namesIn(preview)).toEqual({
      gains: [],
      loses: [
        'people: erin@acme.example: transfer',
        'keys: nightly: transfer',
        'clients: Claude: transfer',
        'grants: Claude: transfer',
      ],
    });
    expect(preview.loses.grants.callers[0]?.email).toBe('erin@acme.example');
    expect(await rulesNow(db)).toBeUndefined();
  });

  test('says who gains a tool, and counts more people than it names', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    for (const name of ['frank', 'grace']) {
      const user = { id: `user_${name}`, email: `${name}@acme.example`, createdAt: madeAt };
      await insertUser(db, user, { organizationId: 'org_acme', role: 'viewer' });
    }
    await changeToolRules(db, target, forTool('transfer', finance));

    const change = forTool('transfer', 'everyone');
    const { gains } = await previewToolRules(db, await salesServer(db), change, now, mostShown);

    expect([gains.people.count, gains.people.callers.map(({ name }) => name)]).toEqual([
      3,
      ['erin@acme.example', 'frank@acme.example'],
    ]);
  });

  test('leaves out people whom the groups of the server exclude', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_finance'] });

    const change = forTool('transfer', new Set(['group_legal']));
    const { loses } = await previewToolRules(db, await salesServer(db), change, now, mostShown);

    expect(loses.people.callers.map(({ name }) => name)).toEqual(['dana@acme.example']);
  });

  test('names all resources without a rule of their own by an empty name', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);

    const change = { others: { resource: finance, tool: finance } };
    const { loses } = await previewToolRules(db, await salesServer(db), change, now, mostShown);

    expect(loses.people.callers.map(({ name, items }) => [name, items])).toEqual([
      ['erin@acme.example', [{ kind: 'resource', name: '' }]],
    ]);
  });

  test('names a resource that a template decides about once its own rule is removed', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, {
      named: [
        { kind: 'template', name: 'memo://{id}', audience: finance },
        { kind: 'resource', name: 'memo://1', audience: 'everyone' },
      ],
    });

    const named = [{ kind: 'resource' as const, name: 'memo://1', audience: undefined }];
    const preview = await previewToolRules(db, await salesServer(db), { named }, now, mostShown);

    expect(namesIn(preview)).toEqual({ gains: [], loses: ['people: erin@acme.example: memo://1'] });
  });

  test('names a chosen resource that a rule for a template closes', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await insertGrant(db, 'erin');
    const chosen = { type: 'chosen', tools: [], prompts: [], resources: ['memo://1'] } as const;
    await setGrantTools(db, 'grant_erin_client_a', chosen);

    const named = [{ kind: 'template' as const, name: 'memo://{id}', audience: finance }];
    const preview = await previewToolRules(db, await salesServer(db), { named }, now, mostShown);

    expect(namesIn(preview).loses).toEqual([
      'people: erin@acme.example: memo://{id}',
      'clients: Claude: memo://{id}',
      'grants: Claude: memo://1',
    ]);
  });

  test('agrees with what is explained before and after the change', async () => {
    await using database = await open();
    const { db } = database;
    await prepared(db);
    await changeToolRules(db, target, forTool('refund', finance));
    const change = {
      named: [
        { kind: 'tool' as const, name: 'refund', audience: 'everyone' as const },
        { kind: 'tool' as const, name: 'lookup', audience: new Set(['group_legal']) },
      ],
    };
    const before = await explained(db, erin);
    const preview = await previewToolRules(db, await salesServer(db), change, now, mostShown);
    await changeToolRules(db, target, change);
    const after = await explained(db, erin);

    expect([before, after]).toEqual([
      { lookup: 'everyone', refund: 'other_group', transfer: 'everyone' },
      { lookup: 'other_group', refund: 'everyone', transfer: 'everyone' },
    ]);
    expect(namesIn(preview).gains).toEqual(['people: erin@acme.example: refund']);
    expect(namesIn(preview).loses).toEqual([
      'people: dana@acme.example: lookup',
      'people: erin@acme.example: lookup',
    ]);
  });
});
