import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { auditSentences } from '#server/audit/sentences';
import { insertAuditEvent } from '#server/db/audit';
import { insertAgent } from '#server/db/agents';
import { insertKey } from '#server/db/keys';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { insertServer } from '#server/db/servers';
import { newKey } from '#support/made-records';
import { pageApp } from '#support/page-app';

/** An owner of `acme` who looks at an audit log with these events. */
async function logged(
  ...events: readonly { action: string; target?: string; actor?: string; refused?: boolean }[]
) {
  const app = await pageApp();
  onTestFinished(() => app[Symbol.asyncDispose]());
  const { db } = app.server.stores;
  const { cookie } = await app.browser('user_dora', { organizationId: 'org_acme', role: 'owner' });
  await insertKey(db, newKey({ id: 'key_1', name: '<b>Nightly</b> report' }));
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  const bob = { id: 'user_bob', email: 'user_bob@example.com', passwordHash: null, createdAt: 1 };
  await insertUser(db, bob, { organizationId: 'org_other', role: 'member' });
  const titledIds = { id: 'srv_titled', targetId: 'target_titled' };
  const titled = { ...titledIds, organizationId: 'org_acme', name: 'titled', createdAt: 1 };
  await insertServer(db, { ...titled, title: 'Sales <EMEA>', upstream: { kind: 'demo' } });
  await insertAgent(db, {
    id: 'agent_office',
    organizationId: 'org_acme',
    name: 'office',
    createdAt: 1,
  });
  const theirIds = { id: 'srv_other', targetId: 'target_other' };
  const theirs = { ...theirIds, organizationId: 'org_other', name: 'theirs', createdAt: 1 };
  await insertServer(db, { ...theirs, upstream: { kind: 'demo' } });
  const owner = { type: 'server', serverId: 'srv_other' } as const;
  await insertKey(db, newKey({ id: 'key_2', hash: '2', name: 'Secret project', owner }));
  for (const { action, target, actor = 'user:user_dora', refused = false } of events) {
    await insertAuditEvent(db, {
      at: app.server.clock.now(),
      actor,
      organization: 'acme',
      action,
      target,
      address: '192.0.2.1',
      requestId: undefined,
      outcome: refused ? 'refused' : 'done',
    });
  }
  const { text } = await app.get('/dashboard/acme/audit', cookie);
  const sentences = [...text.matchAll(/<div class="sentence">([\s\S]*?)<\/div>/g)];
  return {
    text,
    look: async (filter: Readonly<Record<string, string>>) =>
      (await app.get(`/dashboard/acme/audit?${new URLSearchParams(filter).toString()}`, cookie))
        .text,
    sentences: sentences.map(([, one = '']) => one.replaceAll(/<[^>]+>/g, '').replace(/\s+/g, ' ')),
  };
}

test('audit log: an entry is a sentence with names, and its ids are in the details', async () => {
  const { text, sentences } = await logged({ action: 'key.revoke', target: 'key:key_1' });

  expect(sentences).toEqual([
    'user_dora@example.com revoked the API key &lt;b&gt;Nightly&lt;/b&gt; report',
  ]);
  expect(text).not.toContain('<b>Nightly');
  expect(text).toMatch(/<details>[\s\S]*key:key_1[\s\S]*192\.0\.2\.1[\s\S]*<\/details>/);
});

test.each([
  ['server.update', 'server:acme/sales', 'user_dora@example.com changed the server sales'],
  [
    'server.set-header',
    'header:X-Key server:acme/sales',
    'user_dora@example.com set the header X-Key of sales',
  ],
  [
    'server.try',
    'server:acme/sales tool:find rows',
    'user_dora@example.com called the tool find rows of sales in the dashboard',
  ],
  [
    'tool.changed',
    'tool:acme/sales/query',
    'user_dora@example.com noticed that the tool query changed',
  ],
  [
    'template.changed',
    'template:acme/sales/file:///{path}',
    'user_dora@example.com noticed that the resource template file:///{path} changed',
  ],
  [
    'tool.review',
    'server:acme/sales waiting:3',
    'user_dora@example.com noticed new or changed definitions of sales for review: 3',
  ],
  [
    'consent.allow',
    'client_x acme/sales',
    'user_dora@example.com allowed the application client_x to use sales',
  ],
  ['agent.revoke', 'agent:acme/berlin', 'user_dora@example.com revoked the agent berlin'],
  [
    'group.add-member',
    'group:group_x user:user_dora',
    'user_dora@example.com added user_dora@example.com to the group group_x',
  ],
  [
    'leaver.hand-over',
    'agent:agent_office user:user_dora',
    'user_dora@example.com handed over office to user_dora@example.com',
  ],
  ['key.rotate', 'key:key_gone/key_new', 'user_dora@example.com rotated the API key key_gone'],
  ['something.new', 'x', 'user_dora@example.com did something.new: x'],
  [
    'server.try',
    '/dashboard/:organization/servers/:server/try',
    'user_dora@example.com tried to open the page /servers/:server/try',
  ],
])('audit log: the sentence of %s', async (action, target, expected) => {
  const { sentences } = await logged({ action, target });

  expect(sentences).toEqual([expected]);
});

test('audit log: a person who left is named as long as their account exists, but not in a refused entry alone', async () => {
  const target = 'user:user_bob';
  const offboarded = (refused: boolean) => ({ action: 'person.offboard', target, refused });

  const done = await logged(offboarded(false));
  const refused = await logged(offboarded(true));

  expect(done.sentences).toEqual(['user_dora@example.com offboarded user_bob@example.com']);
  expect(refused.sentences[0]).toContain('tried to offboard user_bob Denied');
});

test('audit log: a server has its title, escaped, and its name beside it', async () => {
  const { sentences, text } = await logged({
    action: 'server.disable',
    target: 'server:acme/titled',
  });

  expect(sentences).toEqual([
    'user_dora@example.com disabled the server Sales &lt;EMEA&gt; titled',
  ]);
  expect(text).toContain('<code class="slug">titled</code>');
});

test('audit log: a refused entry names the attempt, and nothing of other organizations', async () => {
  const { text, sentences } = await logged(
    { action: 'key.revoke', target: 'key:key_2', refused: true },
    { action: 'call.too-many-requests', target: 'acme/sales', actor: 'key:key_1', refused: true },
  );

  expect(sentences).toEqual([
    'API key &lt;b&gt;Nightly&lt;/b&gt; report tried to call sales more often than allowed Denied',
    'user_dora@example.com tried to revoke the API key key_2 Denied',
  ]);
  expect(text).not.toContain('Secret project');
});

test.each([
  [
    { actor: 'user_dara@example.com' },
    'No member of this organization has the address user_dara@example.com: check its spelling.',
    'user_dora@example.com',
  ],
  [
    { actor: 'user_bob@example.com' },
    'No member of this organization has the address user_bob@example.com: check its spelling.',
    undefined,
  ],
  [
    { actor: 'user_dora' },
    'user_dora is not an e-mail address: enter a whole address, or an actor such as key:key_… or operator.',
    'user_dora@example.com',
  ],
  [{ actor: 'system' }, 'No entries match.', undefined],
  [{ actor: 'user_dora@example.com', outcome: 'refused' }, 'No entries match.', undefined],
  [{ action: 'key.revok' }, 'There is no action key.revok.', 'key.revoke'],
  [{ action: 'key.create' }, 'No entries match.', undefined],
  [{ target: 'key_1' }, 'No entry has the target key_1.', 'key:key_1'],
  [{ target: 'titled' }, 'No entry has the target titled.', 'server:acme/titled'],
  [{ target: 'nothing' }, 'No entry has the target nothing.', undefined],
])('audit log: %o finds nothing and says why', async (filter, words, meant) => {
  const { look } = await logged({ action: 'key.revoke', target: 'key:key_1' });

  const text = await look(filter);

  const [, href, found] = /href="([^"]+)">Show the entries of ([^<]+)<\/a>/.exec(text) ?? [];
  expect(text).toContain(words);
  expect(found).toBe(meant);
  const linked = new URLSearchParams(href?.split('?')[1]);
  expect([...linked.values()].find((value) => value === meant)).toBe(meant);
});

test('audit log: an action that does not occur stays chosen in the form, which can be cleared', async () => {
  const { look, text: whole } = await logged({ action: 'key.revoke', target: 'key:key_1' });

  const text = await look({ action: 'key.revok' });

  const clear = '<a href="/dashboard/acme/audit">Clear</a>';
  expect([whole.includes(clear), text.includes(clear)]).toEqual([false, true]);

  expect(text).toMatch(/<option value="key\.revok" selected>/);
});

test('audit log: every action that the server records has a sentence', () => {
  const root = join(import.meta.dirname, '../../../../../server');
  const files = globSync('**/*.ts', { cwd: root, exclude: (name) => name === 'node_modules' });
  const source = files.map((file) => readFileSync(join(root, file), 'utf8')).join('\n');
  const recorded = [...source.matchAll(/\baction: '([a-z-]+(?:\.[a-z-]+)*)'/g)].map(
    ([, action = '']) => action,
  );

  expect(recorded.length).toBeGreaterThan(20);
  expect(recorded.filter((action) => !Object.hasOwn(auditSentences, action))).toEqual([]);
});

test.each([
  [undefined, 'Entries cannot be edited. The operator sets how long they are kept.'],
  [365, 'Entries cannot be edited. The operator keeps them for 365 days.'],
])('audit log: kept for %s days, it says so', async (auditRetentionDays, sentence) => {
  await using app = await pageApp({ auditRetentionDays });
  const { cookie } = await app.browser('user_dora', { organizationId: 'org_acme', role: 'owner' });

  const { text } = await app.get('/dashboard/acme/audit', cookie);

  expect(text).toContain(sentence);
});
