import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';

import { insertAuditEvent } from '#server/db/audit';
import { findUserByEmail } from '#server/db/people';
import { findServer } from '#server/db/servers';
import { administrationWithServer, type Administration } from '#support/administration';
import { connectProxy } from '#support/made-records';
import { temporaryFolder } from '#support/temporary-folder';

const made = z.object({ id: z.string() });
const link = z.object({ id: z.string(), link: z.string() });

async function withPeople(): Promise<Administration> {
  const admin = await administrationWithServer();
  for (const [email, role] of [
    ['dana@example.com', 'owner'],
    ['eli@example.com', 'member'],
  ] as const) {
    await admin.run('user', 'create', email, '--organization', 'acme', '--role', role);
  }
  return admin;
}
const at = ['--organization', 'acme'] as const;

test('a person’s role is changed, and the last owner keeps theirs', async () => {
  await using admin = await withPeople();
  const change = ['user', 'set-role', 'eli@example.com', ...at, '--role'] as const;

  expect(await admin.json(...change, 'viewer')).toMatchObject({ role: 'viewer' });
  await expect(
    admin.run('user', 'set-role', 'dana@example.com', ...at, '--role', 'member'),
  ).rejects.toThrow('must have an owner');
  await expect(admin.run(...change, 'king')).rejects.toMatchObject({ name: 'UsageError' });
  expect(await admin.json('user', 'members', 'acme')).toMatchObject([
    { email: 'dana@example.com', role: 'owner', groups: [], second_factor: 'no' },
    { email: 'eli@example.com', role: 'viewer', groups: [], second_factor: 'no' },
  ]);
});

/** The command that offboards Eli, with a key that he created and that works. */
async function withLeaver() {
  const admin = await withPeople();
  await admin.run('user', 'set-role', 'eli@example.com', ...at, '--role', 'admin');
  const { id } = made.parse(await admin.json('key', 'create', 'acme/web', '--name', 'nightly'));
  const { db } = admin.stores;
  const eli = await findUserByEmail(db, 'eli@example.com');
  await db.updateTable('api_key').set({ owner_id: eli?.id }).where('id', '=', id).execute();
  return { admin, keyId: id, offboard: ['user', 'offboard', 'eli@example.com', ...at] };
}

test('user offboard: nothing changes while a key has no new owner and would stop working', async () => {
  const { admin, keyId, offboard } = await withLeaver();
  await using _admin = admin;
  const line = `latchkey-server ${offboard.join(' ')}`;

  await expect(admin.run(...offboard)).rejects.toMatchObject({
    message: `nothing was changed: no one takes over what would stop working: the key nightly (${keyId})`,
    hint: `${line} --to EMAIL hands them over; --preview lists them; --yes suspends them until someone takes them over`,
  });
  expect(await admin.json('user', 'members', 'acme')).toHaveLength(2);
});

test.each([
  [['--yes'], 'suspended     1'],
  [['--to', 'dana@example.com'], 'handed_over   1'],
  [['--revoke', 'KEY'], 'revoked       1'],
  [['--except', 'KEY=dana@example.com'], 'handed_over   1'],
])('user offboard: goes on with %s', async (options, line) => {
  const { admin, keyId, offboard } = await withLeaver();
  await using _admin = admin;

  const printed = await admin.run(
    ...offboard,
    ...options.map((text) => text.replace('KEY', keyId)),
  );

  expect(printed).toContain(line);
  expect(await admin.json('user', 'members', 'acme')).toHaveLength(1);
});

test('user offboard: asks nothing where the organization keeps what people leave', async () => {
  const { admin, offboard } = await withLeaver();
  await using _admin = admin;
  await admin.run('organization', 'update', 'acme', '--leaver-resources', 'keep');

  expect(await admin.run(...offboard)).toContain('left          1');
});

test('user leave: without --yes, says what would stop working, and changes nothing', async () => {
  const { admin, keyId } = await withLeaver();
  await using _admin = admin;
  const leave = ['user', 'leave', 'eli@example.com', ...at] as const;

  await expect(admin.run(...leave)).rejects.toMatchObject({
    name: 'CommandError',
    message: `nothing was changed: removing eli@example.com from acme ends what they allowed to applications (0) and their accounts at MCP servers (0); suspended until someone takes them over: the key nightly (${keyId})`,
    hint: `to remove them: latchkey-server ${leave.join(' ')} --yes; to hand over what they own: latchkey-server user offboard eli@example.com --organization acme --to EMAIL`,
  });
  expect(await admin.json('user', 'members', 'acme')).toHaveLength(2);
  await admin.run('organization', 'update', 'acme', '--leaver-resources', 'keep');
  await expect(admin.run(...leave)).rejects.toThrow(`; left without an owner: the key nightly`);
});

test('user leave: the last owner is refused without a question', async () => {
  await using admin = await withPeople();

  await expect(admin.run('user', 'leave', 'dana@example.com', ...at)).rejects.toThrow(
    'an organization must have an owner',
  );
});

test('user remove: without --yes, says what would stop working in each organization, and keeps the account', async () => {
  const { admin, keyId } = await withLeaver();
  await using _admin = admin;
  await admin.run('organization', 'create', 'other');
  const join = ['--organization', 'other', '--role', 'owner'];
  await admin.run('user', 'create', 'eli@example.com', ...join);
  const remove = ['user', 'remove', 'eli@example.com'] as const;

  await expect(admin.run(...remove)).rejects.toMatchObject({
    name: 'CommandError',
    message: `nothing was changed: removing eli@example.com deletes the account, and ends its membership of acme and other, its sessions and personal tokens, what they allowed to applications (0) and their accounts at MCP servers (0); in acme, suspended until someone takes them over: the key nightly (${keyId}); other is left without an owner`,
    hint: 'latchkey-server user remove eli@example.com --yes',
  });
  expect(await admin.json('user', 'list')).toHaveLength(2);
  await admin.run(...remove, '--yes');
  expect(await admin.json('user', 'list')).toHaveLength(1);
});

test('a person leaves one organization and keeps the account', async () => {
  await using admin = await withPeople();

  await admin.run('user', 'end-sessions', 'eli@example.com', ...at);
  await admin.run('user', 'leave', 'eli@example.com', ...at, '--yes');

  expect(await admin.json('user', 'list')).toContainEqual(
    expect.objectContaining({ email: 'eli@example.com', roles: [] }),
  );
  await expect(
    admin.run('user', 'reset-second-factor', 'eli@example.com', ...at),
  ).rejects.toMatchObject({
    name: 'CommandError',
    message: 'eli@example.com does not belong to acme',
    hint: expect.stringMatching(
      /^latchkey-server user create eli@example\.com --organization acme /,
    ),
  });
});

test('a person with an account joins another organization without a new password', async () => {
  await using admin = await withPeople();
  const [, hint = ''] = (await admin.run('organization', 'create', 'other')).slice(-2);
  const join = ['--organization', 'other', '--role', 'viewer'];
  await admin.run('user', 'create', 'eli@example.com', ...join);

  expect(hint).toContain('user create EMAIL --organization other');
  expect(await admin.json('user', 'members', 'other')).toMatchObject([
    { email: 'eli@example.com', role: 'viewer' },
  ]);
});

test('the audit log is filtered by a person’s address', async () => {
  await using admin = await withPeople();
  const { id } = made.parse(
    await admin.json('user', 'set-role', 'eli@example.com', ...at, '--role', 'viewer'),
  );
  const event = { at: 1, organization: 'acme', action: 'server.try', target: 'server:acme/web' };
  const from = { address: undefined, requestId: undefined, outcome: 'done' } as const;
  await insertAuditEvent(admin.stores.db, { ...event, ...from, actor: `user:${id}` });
  await insertAuditEvent(admin.stores.db, { ...event, ...from, actor: 'anonymous' });

  expect(await admin.json('audit', 'list', 'acme', '--actor', 'eli@example.com')).toMatchObject([
    { actor: `user:${id}`, action: 'server.try' },
  ]);
  await expect(
    admin.run('audit', 'export', 'acme', '--actor', 'zoe@example.com'),
  ).rejects.toMatchObject({ message: 'no person has the address zoe@example.com' });
});

test('a group is created, filled, mapped, gives access to a server, and is named by its name or id', async () => {
  await using admin = await withPeople();
  const { id } = made.parse(await admin.json('group', 'create', 'acme', 'Sales team'));

  await admin.run('group', 'add', 'acme', 'Sales team', 'eli@example.com');
  await admin.run('group', 'map', 'acme', id, 'idp-sales');
  const sales = ['server', 'set-groups', 'acme/web', '--group', 'Sales team'];
  expect(await admin.json(...sales, '--dry-run')).toMatchObject({
    allowed: 1,
    gains: [],
    loses: expect.not.arrayContaining(['eli@example.com']),
  });
  await expect(admin.run('server', 'set-groups', 'acme/web')).rejects.toThrow('--everyone');
  await admin.run(...sales);

  expect(await admin.json('group', 'list', 'acme')).toMatchObject([
    { id, name: 'Sales team', members: 1, servers: ['web'] },
  ]);
  await expect(admin.run('group', 'delete', 'acme', id)).rejects.toMatchObject({
    message: 'web is restricted to Sales team: first open it to everyone, or choose other groups',
    hint: 'to let everyone use it: latchkey-server server set-groups acme/web --everyone',
  });
  await expect(admin.run('group', 'add', 'acme', 'Nobody', 'eli@example.com')).rejects.toThrow(
    "there is no group 'Nobody' in acme",
  );
  await expect(
    admin.run('group', 'add', 'acme', 'sales team', 'eli@example.com'),
  ).rejects.toMatchObject({
    hint: "did you mean 'Sales team'? latchkey-server group list acme",
  });
  await expect(admin.run('group', 'create', 'acme', 'SALES TEAM')).rejects.toMatchObject({
    name: 'CommandError',
    message: 'the group Sales team already exists',
  });
  await admin.run('server', 'set-groups', 'acme/web', '--everyone');
  await admin.run('group', 'unmap', 'acme', id, 'idp-sales');
  await admin.run('group', 'remove', 'acme', id, 'eli@example.com');
  await expect(admin.run('group', 'remove', 'acme', id, 'eli@example.com')).rejects.toThrow(
    'eli@example.com is not in the group Sales team',
  );
  expect(await admin.json('group', 'delete', 'acme', id)).toMatchObject({ id });
});

test('several members join a group at once, those who can, and it says what became of each address', async () => {
  await using admin = await withPeople();
  await using folder = await temporaryFolder();
  const file = `${folder.path}/people.csv`;
  writeFileSync(
    file,
    'Name,Team,Site,E-mail\nDana,A,B,dana@example.com\nZoe,A,B,zoe@example.com\n',
  );
  const url = ['--base-url', 'https://latchkey.example.com'];
  const invite = ['invitation', 'create', 'acme', '--role', 'member', ...url];
  await admin.run('user', 'create', 'fay@example.com', ...at, '--role', 'member');
  await admin.run('group', 'create', 'acme', 'Finance');
  await admin.run(...invite, '--email', 'Eve@example.com');
  const add = ['group', 'add', 'acme', 'Finance'] as const;
  const audited = () => admin.json('audit', 'list', 'acme', '--action', 'group.add-member');

  expect(await admin.json(...add, 'eli@example.com', 'Fay <FAY@example.com>')).toEqual([
    { email: 'eli@example.com', status: 'added' },
    { email: 'Fay <FAY@example.com>', status: 'added' },
  ]);
  expect(await audited()).toHaveLength(2);
  await expect(admin.run(...add, 'eli@example.com', '--from', file)).rejects.toMatchObject({
    name: 'CommandError',
    message: 'zoe@example.com is not a member: invite the person first',
    hint: 'to invite someone: latchkey-server invitation create acme --role member --group Finance --email EMAIL',
  });
  expect(await audited()).toHaveLength(3);
  await expect(admin.run(...add, 'eve@example.com')).rejects.toMatchObject({
    message:
      'eve@example.com is invited and has not joined yet: add them after they join, or revoke the invitation and invite them again with the group',
    hint: 'latchkey-server invitation list acme',
  });
  await expect(admin.run(...add, 'eve@example.com', 'bob')).rejects.toMatchObject({
    message: '2 of 2 addresses were not added',
  });
  await expect(admin.run(...add)).rejects.toMatchObject({
    name: 'UsageError',
    message: 'EMAIL or --from FILE is missing',
  });
  const many = Array.from({ length: 1001 }, (_, index) => `p${index}@example.com`);
  await expect(admin.run(...add, ...many)).rejects.toThrow('more than 1000 addresses');
  expect(await admin.json('group', 'list', 'acme')).toMatchObject([{ members: 3 }]);

  writeFileSync(file, 'Name,Role\nDana,owner\n');
  await expect(admin.run(...add, '--from', file)).rejects.toMatchObject({
    name: 'UsageError',
    message: `--from ${file}, line 1: no column is named email: name one so`,
  });
});

test('a group that tools are restricted to is listed with them, and the refusal to delete it names them', async () => {
  await using admin = await withPeople();
  const both = ['--group', 'Finance', '--group', 'Human resources'];
  await admin.run('group', 'create', 'acme', 'Finance');
  await admin.run('group', 'create', 'acme', 'Human resources');
  await admin.run('tool', 'restrict', 'acme/web', 'get-env', ...both);
  await admin.run(
    'tool',
    'restrict',
    'acme/web',
    'greet',
    '--kind',
    'prompt',
    '--group',
    'Finance',
  );
  await admin.run('tool', 'default', 'acme/web', '--group', 'Finance');
  const remove = () => admin.run('group', 'delete', 'acme', 'Finance');

  expect(await admin.json('group', 'list', 'acme')).toMatchObject([
    { name: 'Finance', servers: [], tools: ['web/get-env', 'web/*', 'web/prompt:greet'] },
    { name: 'Human resources', servers: [], tools: ['web/get-env'] },
  ]);
  await expect(remove()).rejects.toMatchObject({
    message:
      'get-env of web, other tools of web and the prompt greet of web are restricted to Finance: first open them to everyone, or choose other groups',
    hint: "latchkey-server tool restrict acme/web get-env --group 'Human resources'",
  });
  await admin.run('tool', 'restrict', 'acme/web', 'get-env', '--group', 'Human resources');
  await expect(remove()).rejects.toMatchObject({
    hint: 'to let everyone use it: latchkey-server tool default acme/web --everyone',
  });
  await admin.run('tool', 'default', 'acme/web', '--everyone');
  await expect(remove()).rejects.toMatchObject({
    hint: 'to let everyone use it: latchkey-server tool open acme/web greet --kind prompt',
  });
  await admin.run('tool', 'open', 'acme/web', 'greet', '--kind', 'prompt');
  await admin.run('tool', 'restrict', 'acme/web', "it's; x", '--group', 'Finance');
  await admin.run('server', 'set-groups', 'acme/web', '--group', 'Finance');
  await expect(remove()).rejects.toMatchObject({
    hint: String.raw`to let everyone use it: latchkey-server server set-groups acme/web --everyone; then to let everyone use it: latchkey-server tool open acme/web 'it'\''s; x'`,
  });
  await admin.run('server', 'set-groups', 'acme/web', '--everyone');
  await expect(remove()).rejects.toMatchObject({
    hint: String.raw`to let everyone use it: latchkey-server tool open acme/web 'it'\''s; x'`,
  });
  await admin.run('tool', 'open', 'acme/web', "it's; x");
  await remove();
});

test('an invitation is a link that is shown once, listed without it, and revoked', async () => {
  await using admin = await withPeople();
  await admin.run('group', 'create', 'acme', 'Sales');
  const words = ['acme', '--role', 'viewer', '--group', 'Sales', '--note', 'Zoe'] as const;
  const invitation = link.parse(await admin.json('invitation', 'create', ...words));

  expect(invitation.link).toMatch(/^http:\/\/127\.0\.0\.1:8787\/invitation\/[\w-]{32}$/);
  const listed = await admin.run('invitation', 'list', 'acme');
  expect(listed.join('\n')).toContain('Zoe');
  expect(await admin.json('invitation', 'list', 'acme')).toMatchObject([{ groups: ['Sales'] }]);
  expect(listed.join('\n')).not.toContain(invitation.link.slice(-32));
  await admin.run('invitation', 'revoke', 'acme', invitation.id);
  expect(await admin.json('invitation', 'list', 'acme')).toEqual([]);
});

test('an invitation of a member, or of someone who is invited, is refused with what to do instead', async () => {
  await using admin = await withPeople();
  const invite = (email: string) =>
    admin.run('invitation', 'create', 'acme', '--role', 'viewer', '--email', email);
  await invite('zoe@example.com');
  const [{ id }] = z
    .tuple([z.object({ id: z.string() })])
    .parse(await admin.json('invitation', 'list', 'acme'));

  await expect(invite('eli@example.com')).rejects.toMatchObject({
    message: expect.stringContaining('eli@example.com is a member already'),
    hint: 'latchkey-server user set-role eli@example.com --organization acme --role ROLE, or latchkey-server group add acme GROUP eli@example.com',
  });
  await expect(invite('Zoe@example.com')).rejects.toMatchObject({
    message: expect.stringContaining('Zoe@example.com is invited already'),
    hint: `for a new link: latchkey-server invitation renew acme --id ${id}`,
  });
});

test('everyone in a file is invited, after a preview that invites no one, and renewed', async () => {
  await using admin = await withPeople();
  await using folder = await temporaryFolder();
  const file = `${folder.path}/people.csv`;
  writeFileSync(
    file,
    'email,role,groups,rights\nzoe@example.com,viewer,Sales,all\nyan@example.com\neli@example.com',
  );
  const words = ['acme', '--from', file] as const;

  await admin.run('group', 'create', 'acme', 'Sales');
  const preview = await admin.json('invitation', 'create', ...words, '--preview');
  const noted = admin.told;
  const before = await admin.json('invitation', 'list', 'acme');
  const invited = await admin.json('invitation', 'create', ...words);
  const notedAgain = admin.told;
  const renewed = await admin.json('invitation', 'renew', 'acme', '--all-pending');

  const eli = {
    email: 'eli@example.com',
    role: null,
    groups: null,
    status: 'skipped: a member already',
  };
  const shown = expect.stringMatching(/^http:\/\/127\.0\.0\.1:8787\/invitation\/[\w-]{32}$/);
  expect(preview).toMatchObject([
    {
      email: 'zoe@example.com',
      role: 'viewer',
      groups: ['Sales'],
      status: 'would be invited',
      link: null,
    },
    {
      email: 'yan@example.com',
      role: 'member',
      groups: [],
      status: 'would be invited',
      link: null,
    },
    eli,
  ]);
  expect(noted).toEqual(['note: 1 column is not used: rights']);
  expect(notedAgain).toContain('note: 1 column is not used: rights');
  expect(before).toEqual([]);
  expect(invited).toMatchObject([
    { email: 'zoe@example.com', groups: ['Sales'], status: 'invited', link: shown },
    { email: 'yan@example.com', status: 'invited', link: shown },
    eli,
  ]);
  expect(renewed).toHaveLength(2);
  await expect(admin.run('invitation', 'renew', 'acme')).rejects.toThrow('--all-expired');
  writeFileSync(file, 'nobody');
  await expect(admin.run('invitation', 'create', ...words)).rejects.toThrow(
    `--from ${file}, line 1: “nobody” is not an e-mail address`,
  );
  const missing = ['acme', '--from', `${file}.missing`];
  await expect(admin.run('invitation', 'create', ...missing)).rejects.toThrow(
    `--from ${file}.missing does not exist`,
  );
  await expect(admin.run('invitation', 'create', 'acme')).rejects.toThrow('--role ROLE is missing');
});

test('an organization requires a second factor, and refuses unknown applications', async () => {
  await using admin = await withPeople();
  const words = ['--title', 'Acme', '--second-factor', 'yes', '--open-clients', 'no'] as const;

  expect(await admin.json('organization', 'update', 'acme', ...words)).toEqual({
    name: 'acme',
    title: 'Acme',
    second_factor: 'yes',
    open_clients: 'no',
    latchkey_proxy: 'yes',
    call_retention_days: 90,
    single_sign_on: 'no',
    leaver_resources: 'suspend',
    invited_scim_groups: 'no',
  });
  await expect(
    admin.run('organization', 'update', 'acme', '--second-factor', 'maybe'),
  ).rejects.toThrow('neither yes nor no');
});

test('an organization turns off our proxy only with --yes while people use it', async () => {
  await using admin = await withPeople();
  const [user] = z
    .array(z.looseObject({ id: z.string() }))
    .parse(await admin.json('user', 'members', 'acme'));
  const server = await findServer(admin.stores.db, 'acme', 'web');
  const people = [user?.id ?? ''];
  const now = admin.clock.now();
  await connectProxy(admin.stores.db, { people, serverId: server?.id ?? '', now });
  const off = ['organization', 'update', 'acme', '--latchkey-proxy', 'no'] as const;

  await expect(admin.run(...off)).rejects.toMatchObject({
    message:
      'nothing was changed: in acme, 1 person loses access through Latchkey’s own proxy, which has 1 connection',
    hint: 'to change it, repeat the command with --yes',
  });
  expect(await admin.json('organization', 'update', 'acme')).toMatchObject({
    latchkey_proxy: 'yes',
  });
  expect(await admin.json(...off, '--yes')).toMatchObject({ latchkey_proxy: 'no' });
});

test('the audit log is filtered, and exported as lines or as a table', async () => {
  await using admin = await withPeople();
  const listed = await admin.json('audit', 'list', 'acme', '--action', 'user.create');
  const lines = await admin.run('audit', 'export', 'acme');
  const table = await admin.run('audit', 'export', 'acme', '--csv', '--action', 'audit.export');

  expect(listed).toMatchObject([
    { actor: 'operator', action: 'user.create', outcome: 'done' },
    { actor: 'operator', action: 'user.create', outcome: 'done' },
  ]);
  const [newest] = lines.join('\n').split('\n');
  expect(JSON.parse(newest ?? '')).toMatchObject({ action: 'audit.export', target: 'jsonl' });
  expect(table.join('\n').split(/\r?\n/)[0]).toContain('time,actor,organization');
  await expect(admin.run('audit', 'list', 'acme', '--outcome', 'odd')).rejects.toThrow('unknown');
  await expect(admin.run('audit', 'list', 'acme', '--from', 'soon')).rejects.toThrow('not a date');
});

test('grants are listed, and an unknown one cannot be revoked', async () => {
  await using admin = await withPeople();

  expect(await admin.json('consent', 'list', 'acme', '--user', 'eli@example.com')).toEqual([]);
  await expect(admin.run('consent', 'withdraw', 'acme', 'grant_none')).rejects.toThrow(
    'grant not found',
  );
});
