import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { type Operation, mayDo } from '#server/admin/operation';
import { operations } from '#server/admin/operations';
import { mintSecret } from '#server/secrets/secrets';
import { type Role, roles } from '#server/model/roles';
import { adminApi, idsOf, spelling, type AdminApi } from '#support/admin-api';
import { everyRow } from '#support/open-database';
import { deadMailServer } from '#support/mail-setup';
import { deadWebhook } from '#support/webhook-setup';
import { insertAccessRequest } from '#server/db/access-requests';
import { listPersonalTokens, revokePersonalToken } from '#server/db/personal-tokens';
import { noToolRules, rulesSeen } from '#server/db/tool-rules';
import { insertTrustRule } from '#server/db/trust-rules';
import { recordCalls } from '#support/made-calls';
import { newestEvents } from '#support/newest-events';

let api: AdminApi;
beforeAll(async () => {
  api = await adminApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const routed = operations.filter(({ route }) => route !== undefined);
const within = routed.filter((operation) => operation.within === 'organization');
const byName = (some: readonly Operation[]) => some.map((one) => [one.name, one] as const);

/** What each operation is asked for besides the things that its path names. */
const besides: Record<string, object> = {
  'organization.create': { name: 'made-by-a-test' },
  'organization.update': { title: 'Acme' },
  'server.create': { name: 'made', upstream: { kind: 'demo' } },
  'server.update': { title: 'Web', hiddenTools: ['drop'] },
  'client.create': { name: 'c', scopes: ['mcp:tools:read'] },
  'client.update': { name: 'renamed' },
  'organization-client.create': { name: 'c' },
  'workload.create': { name: 'c', issuer: 'https://127.0.0.1:9/ci', subject: 'x' },
  'workload.update': { issuer: 'https://127.0.0.1:9/ci', subject: 'y' },
  'key.create': { name: 'k' },
  'agent.create': { name: 'made' },
  'person.set-role': { role: 'viewer' },
  'invitation.create': { role: 'viewer' },
  'invitation.preview': { list: 'ann@example.com' },
  'invitation.import': { list: 'ann@example.com' },
  'invitation.renew': { all: 'pending' },
  'group.create': { name: 'made' },
  'group.rename': { name: 'renamed' },
  'group.map': { externalName: 'staff' },
  'group.unmap': { externalName: 'mapped' },
  'access-request.create': { reason: 'the quarter ends' },
  'access-request.decline': { answer: 'ask Eve' },
  'server.set-contents': { arguments: true },
  'server.set-groups': { access: 'everyone' },
  'collection.create': { name: 'made-collection', members: [{ server: 'sales' }] },
  'collection.add-member': { server: 'sales' },
  'collection.choose': { name: 'echo', decision: 'leave-out' },
  'server.preview-groups': { access: 'everyone' },
  'server.set-access': { kind: 'none' },
  'server.set-header': { name: 'x-new', value: 'a value' },
  'key.update': { tools: { type: 'read-only' } },
  'grant.update': { tools: { type: 'read-only' } },
  'tool.accept': { tools: [{ name: 'echo', digest: 'another' }] },
  'tool.reject': { tools: [{ name: 'echo', digest: 'another' }] },
  'tool.correct': { name: 'echo', readOnly: true },
  'tool.open': { tools: [{ name: 'echo' }] },
  'tool.remove-rule': { tools: [{ name: 'echo' }] },
  'tool.set-default': { access: 'everyone' },
  'tool.change-rules': {
    rules: [{ name: 'echo', access: 'everyone' }],
    rulesSeen: rulesSeen(noToolRules),
  },
  'tool.preview': { rules: '[{"name":"echo","access":"everyone"}]' },
  'webhook.create': { url: deadWebhook },
  'webhook.update': { actions: ['key.'] },
  'mail.set-server': deadMailServer,
  'notice.set': { frequency: 'daily' },
  'search.find': { q: 'sales' },
  'provider.create': {
    name: 'Acme ID',
    issuer: 'https://127.0.0.1:9/made',
    clientId: 'latchkey',
    clientSecret: 'secret',
  },
  'provider.update': { name: 'renamed' },
  'provider.update-assertions': { assertionsAllowed: true },
  'domain.add': { domain: 'made-by-a-test.example' },
  'organization.change-settings': { openClientsAllowed: false },
  'deployment.set': { install: 'everyone' },
  'deployment.publish': { description: 'Everything' },
  'deployment.file': { file: 'vscode-policy' },
};

const asked = (operation: Operation, things: Readonly<Record<string, string>>) => {
  const ids = ['organization', ...idsOf(operation)];
  return {
    ...Object.fromEntries(ids.flatMap((name) => (things[name] ? [[name, things[name]]] : []))),
    ...besides[operation.name],
    ...(operation.name === 'collection.choose' && { server: things['server'] }),
    ...(operation.name === 'access-request.grant' && { groupId: things['openingGroup'] }),
    ...(operation.name === 'tool.restrict' && {
      rules: [{ name: 'echo', groupIds: [things['groupId']] }],
    }),
  };
};
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Everything in the database except the audit log and the personal tokens, which note when they were used. */
const kept = () =>
  everyRow(api.app.server.stores.connection, {
    except: ['audit_event', 'audit_order', 'personal_token'],
  });

/** Things of acme that no operation has changed yet. Making them takes most of the time of these tests. */
let unchanged: Readonly<Record<string, string>> | undefined;
let changes = 0;
const changed = () => {
  unchanged = undefined;
  changes += 1;
};

/** Starts another server when so much has been created that the database is slow. */
async function withFewThings() {
  if (changes < 40) return;
  await api[Symbol.asyncDispose]();
  api = await adminApi();
  [unchanged, changes] = [undefined, 0];
}

/** The things of acme, with a key of the agent where an agent's key is needed, and with a call of the person. */
async function ownThings(operation: Operation, userId?: string) {
  const things = (unchanged ??= await api.things());
  if (ofAskers.has(operation.name)) {
    const { closed = '' } = things;
    if (operation.name !== 'access-request.create') await asking(closed, userId);
    return { ...things, server: closed };
  }
  if (operation.name === 'call.read' || operation.name === 'call.content')
    return { ...things, callId: await recordedCall(userId) };
  if (operation.name === 'grant.allow') await withdrawn(things['grantId']);
  if (operation.name === 'workload.update') await trusting(things['clientId']);
  if (['grant.allow', 'workload.update'].includes(operation.name)) changed();
  if (operation.name !== 'agent.revoke-key') return things;
  const { connection } = api.app.server.stores;
  const row = connection
    .prepare('select k.id from api_key k join agent a on a.id = k.agent_id where a.name = ?')
    .get(things['agent'] ?? '');
  return { ...things, keyId: String(row?.['id']) };
}

/** What people do about their own requests for access. */
const ofAskers = new Set([
  'access-request.create',
  'access-request.read-own',
  'access-request.withdraw',
]);

/** Makes a person ask for access to a server. */
async function asking(server: string, userId: string | undefined) {
  if (userId === undefined) return;
  const id = `request_of_${userId}`;
  const request = { id, organizationId: 'org_acme', server, userId, reason: 'the quarter ends' };
  await insertAccessRequest(api.app.server.stores.db, request, 1);
}

/** Changes a grant into one that came from an assertion and was withdrawn. */
async function withdrawn(grantId = '') {
  await api.app.server.stores.db
    .updateTable('oauth_grant')
    .set({ is_by_assertion: 1, revoked_at: 1 })
    .where('id', '=', grantId)
    .execute();
}

/** Changes a client into that of a workload. */
async function trusting(clientId = '') {
  await insertTrustRule(api.app.server.stores.db, {
    clientId,
    issuer: 'https://127.0.0.1:9/ci',
    keysUrl: undefined,
    jwks: undefined,
    audience: undefined,
    subject: 'x',
    claim: undefined,
    longestLifeSeconds: 3600,
    isSingleUse: true,
  });
}

/**
 * A person with this role, who is also an auditor if the operation requires it. Identity providers require a token that was created with
 * two factors.
 */
async function caller(operation: Operation, role: Role) {
  const made = await api.person(role);
  if (operation.name.startsWith('provider.')) {
    const tokens = api.app.server.stores.db.updateTable('personal_token');
    await tokens.set({ factors: 2 }).where('person_id', '=', made.userId).execute();
  }
  if ('isForAuditors' in operation && operation.isForAuditors) {
    const { db } = api.app.server.stores;
    await db
      .updateTable('membership')
      .set({ is_auditor: 1 })
      .where('person_id', '=', made.userId)
      .execute();
  }
  return made;
}

/** The id of a recorded call of a person. */
async function recordedCall(userId: string | undefined): Promise<string> {
  const { db } = api.app.server.stores;
  const endpoint = { id: 'srv_called', organization: 'acme', name: 'called' };
  await recordCalls(db, Date.now(), [{ userId, endpoint }]);
  const { id } = await db
    .selectFrom('call_record')
    .select('id')
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow();
  return id;
}

test('82: admin API: exactly the operations with a route are served', () => {
  const served = api.app.changing.filter((route) => route.includes(' /api/admin/'));
  const changing = routed.filter(({ route }) => route?.method !== 'GET');

  expect(served.toSorted()).toEqual(changing.map(spelling).toSorted());
});

describe('82: admin API: ids of another organization are not found, and nothing happens to them', () => {
  test.each(byName(within))('82: %s', async (_, operation) => {
    const { token } = await caller(operation, 'owner');
    const own = await ownThings(operation);
    const before = kept();
    const foreign = [
      await api.ask(operation, asked(operation, api.foreign), bearer(token)),
      ...(await Promise.all(
        idsOf(operation).map((name) =>
          api.ask(
            operation,
            asked(operation, { ...own, [name]: api.foreign[name] ?? '' }),
            bearer(token),
          ),
        ),
      )),
    ];
    const after = kept();
    const nobody = { ...own, organization: 'nobody' };
    const unknown = await api.ask(operation, asked(operation, nobody), bearer(token));

    expect(foreign.map(({ status }) => status)).toEqual(foreign.map(() => 404));
    expect(foreign[0]?.text).toBe(unknown.text);
    expect(after).toEqual(before);
  });
});

describe('admin API: no operation runs without a valid personal access token', () => {
  test.each(byName(routed))('%s', async (_, operation) => {
    const fields = asked(operation, { ...(await ownThings(operation)), tokenId: 'none' });
    const { userId, token } = await api.person('owner');
    const [made] = await listPersonalTokens(api.app.server.stores.db, userId);
    await revokePersonalToken(api.app.server.stores.db, userId, made?.id ?? '', 1);
    const browser = await api.app.browser(`user_cookie_${operation.name}`);
    const before = kept();
    const address = `198.51.100.${routed.indexOf(operation) + 1}`;
    const say = (headers: Record<string, string>) => api.ask(operation, fields, headers, address);
    const refused = [
      await say({}),
      await say({ cookie: browser.cookie }),
      await say({ 'x-api-key': token }),
      await say(bearer('pat_garbage')),
      await say(bearer(mintSecret('pat_'))),
      await say(bearer(token)),
    ];

    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 401));
    expect(new Set(refused.map(({ text }) => text)).size).toBe(1);
    expect(refused[0]?.headers).toMatchObject({
      'www-authenticate': 'Bearer realm="latchkey"',
      'cache-control': 'no-store',
    });
    expect(kept()).toEqual(before);
  });
});

// Last, because it makes many things, and the tests before compare all that there is.
describe('82: admin API: each role may do what the permission table says, and gets 403 for the rest', () => {
  test.each(byName(within))('82: %s', async (_, operation) => {
    await withFewThings();
    const answers: Record<string, boolean> = {};
    for (const role of roles) {
      const { token, userId } = await caller(operation, role);
      const fields = asked(operation, await ownThings(operation, userId));
      // A name can be made once; another one for each role.
      const name =
        /\.(create|rename)$/.test(operation.name) && 'name' in operation.input.shape
          ? { name: `${operation.name.replace('.', '-')}-by-${role}` }
          : {};
      const { status } = await api.ask(operation, { ...fields, ...name }, bearer(token));
      expect([200, 201, 403]).toContain(status);
      answers[role] = status !== 403;
      if (answers[role] && operation.route?.method !== 'GET') changed();
    }
    const expected = roles.map((role) => [
      role,
      operation.within === 'organization' && mayDo(role, operation.permission),
    ]);

    expect(answers).toEqual(Object.fromEntries(expected));
  });
});

test('88: admin API: an invalid personal access token is audited with its source address', async () => {
  const [first] = routed;
  if (!first) throw new TypeError('no operation has a route');
  await api.ask(first, {}, bearer(mintSecret('pat_')), '198.51.100.200');
  const [event] = await newestEvents(api.app.server.stores.db, 1);

  expect(event).toMatchObject({
    actor: 'anonymous',
    action: 'token.refused',
    address: '198.51.100.200',
    requestId: expect.any(String),
    outcome: 'refused',
  });
});
