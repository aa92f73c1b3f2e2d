import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { errorWords } from '#server/cli/error-words';
import { shellWord } from '#server/model/shell-word';
import { administrationWithServer } from '#support/administration';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

async function terminal() {
  const admin = await administrationWithServer();
  await admin.run(...'user create dana@example.com --organization acme --role owner'.split(' '));
  return admin;
}

describe('what was not found is followed by the command that lists it', () => {
  test.each([
    ['call show acme call_x', 'call list acme'],
    ['invitation revoke acme invitation_x', 'invitation list acme'],
    ['consent withdraw acme grant_x', 'consent list acme'],
    ['access-request grant acme request_x group_x', 'access-request list acme'],
    ['domain prove acme example.com', 'domain list acme'],
    ['outbound remove mcp.internal', 'outbound list'],
    ['webhook test acme whk_x', 'webhook list acme'],
    ['tool correct acme/web nosuch --title X', 'tool list acme/web'],
    ['tool list acme/web --as nobody@example.com', 'user list'],
    ['mail retry acme', 'mail set-server acme'],
    ['collection set-member acme/desk other', 'collection show acme/desk'],
    ['collection set-member acme/dsek web', 'collection list acme'],
    [
      'user offboard dana@example.com --organization acme --revoke key_x',
      'user offboard dana@example.com --organization acme --preview',
    ],
    [
      'user offboard dana@example.com --organization acme',
      'user set-role EMAIL --organization acme --role owner',
    ],
  ])('%s', async (line, hint) => {
    await using admin = await terminal();
    await admin.run('collection', 'create', 'acme/desk', '--member', 'web');
    await admin.run('group', 'create', 'acme', 'group_x');

    await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
      name: 'CommandError',
      hint: `latchkey-server ${hint}`,
    });
  });
});

test.each([
  ['audit list acme --action key.crate', 'did you mean key.create?'],
  ['audit list acme --actor typo', "--actor 'typo' is neither an e-mail address nor an actor"],
  ['audit list acme --actor eve@example.com', 'eve@example.com is not a member of acme'],
  [
    'audit list acme --target dana@example.com',
    'people are targets by their ID: --target user:user_',
  ],
  [
    'audit list acme --target ghost@example.com',
    'people are targets by their ID: --target user:ID',
  ],
  ['call list acme --person typo@example.com', 'no member of acme has the address typo@example'],
  ['call list acme --person eve@example.com', 'no member of acme has the address eve@example.com'],
  ['call list acme --tool refund', "--tool 'refund*' finds all that begin with it"],
  ['call list acme --application Claude', "--application 'Claude*' finds all that begin with it"],
  ['call list acme --person dana@example.com', 'only the last 7 days were searched'],
])('an empty list is explained: %s', async (line, words) => {
  await using admin = await terminal();
  await admin.run(...'organization create other'.split(' '));
  await admin.run(...'user create eve@example.com --organization other --role owner'.split(' '));

  const lines = await admin.run(...line.split(' '));

  expect(lines.at(-1)).toMatch(/^hint: /);
  expect(lines.at(-1)).toContain(words);
});

test('an empty export is explained on stderr, and its CSV keeps the names of columns', async () => {
  await using admin = await terminal();
  const line = 'call export acme --csv --person typo@example.com';

  const lines = await admin.run(...line.split(' '));

  expect(lines).toEqual([expect.stringMatching(/^at,/)]);
  expect(admin.told).toEqual([
    'no matching calls',
    expect.stringContaining('hint: no member of acme has the address typo@example.com'),
  ]);
});

test.each([
  ['server disable acme/Ev', "'acme/Ev' has no valid names, for example acme/sales"],
  ['server disable web', "'web' is not ORG/NAME, for example acme/sales"],
  ['deployment file claude-code acme', 'no server is installed by default'],
  ['notice set acme eve@example.com --frequency daily', 'is neither an owner nor an admin'],
])('%s is refused: %s', async (line, message) => {
  await using admin = await terminal();
  await admin.run(...'user create eve@example.com --organization acme --role member'.split(' '));

  await expect(admin.run(...line.split(' '))).rejects.toThrow(message);
});

test.each([
  ['in brackets, as addresses of IPv6 are', '[fd00::9]:25', "'[fd00::9]:25'"],
  ['with an apostrophe', "o'brien@example.com", String.raw`'o'\''brien@example.com'`],
  ['with blanks', 'Sales team', "'Sales team'"],
  ['that begins a substitution', '$(id)', "'$(id)'"],
  ['of letters alone', 'dana+x@example.com', 'dana+x@example.com'],
  ['of a path', '/var/lib/latchkey/master.key', '/var/lib/latchkey/master.key'],
])('a word of a suggested command %s is quoted if a shell needs it', (_, word, quoted) => {
  expect(shellWord(word)).toBe(quoted);
});

test('an address with an apostrophe is quoted in the suggested command', async () => {
  await using admin = await terminal();
  await admin.run('organization', 'create', 'other');
  const owner = ['--organization', 'other', '--role', 'owner'];
  await admin.run('user', 'create', "o'brien@example.com", ...owner);

  await expect(
    admin.run(
      'user',
      'set-role',
      "o'brien@example.com",
      '--organization',
      'acme',
      '--role',
      'owner',
    ),
  ).rejects.toMatchObject({
    hint: String.raw`latchkey-server user create 'o'\''brien@example.com' --organization acme --role ROLE adds an existing account`,
  });
});

test.each([
  ['10.0.0.9', '25', '10.0.0.9:25'],
  ['fd00::9', '443', "'[fd00::9]:443'"],
])('a mail server at %s may be allowed with its port', async (host, port, allowed) => {
  await using admin = await terminal();
  const words = ['mail', 'set-server', 'acme', '--host', host, '--port', port];
  const set = (security: string) =>
    admin.run(...words, '--from', 'a@example.com', '--security', security);

  await expect(set('starttls')).rejects.toMatchObject({
    hint: `if it is in your network: latchkey-server outbound allow ${allowed}`,
  });
  await expect(set('none')).rejects.toThrow(
    `--security must be encrypted, unless the operator of Latchkey allows the host: latchkey-server outbound allow ${allowed}`,
  );
});

test.each([
  ['server disable acme/wbe', 'did you mean acme/web?'],
  ['server disable acme/files', 'latchkey-server server create acme/files --http-url URL'],
  ['server create acme/files --agent offce', 'did you mean acme/office?'],
  ['server create acme/files --agent lab', 'latchkey-server agent create acme/lab'],
  ['agent create-key acme/ofice', 'did you mean acme/office?'],
  ['collection create acme/front --member wbe', 'did you mean web?'],
  ['collection create acme/front --member web --member wbe=search', 'did you mean web?'],
  ['collection create acme/front --member acme/web', 'did you mean web?'],
  ['collection create acme/front --member dekk', 'latchkey-server server list acme'],
  ['collection add-member acme/desk wbe', 'did you mean web?'],
  ['collection add-member acme/desk files', 'latchkey-server server list acme'],
])('a name that may be misspelt is asked about: %s', async (line, hint) => {
  await using admin = await terminal();
  await admin.run('agent', 'create', 'acme/office');
  await admin.run('collection', 'create', 'acme/desk', '--member', 'web');

  await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
    name: 'CommandError',
    hint,
  });
});

test('agent revoke takes the name of the agent, as the other commands do', async () => {
  await using admin = await terminal();
  await admin.run('agent', 'create', 'acme/office');

  await admin.run('agent', 'revoke', 'acme/office');

  expect(await admin.json('agent', 'list', 'acme')).toMatchObject([
    { name: 'office', revoked_at: admin.clock.now() },
  ]);
});

test.each([
  ['organization update acme --call-retention-days 0', '--call-retention-days must be at least 1'],
  [
    'token create dana@example.com --name x --expires-in-days 999',
    '--expires-in-days must be at most',
  ],
  ['audit list acme --limit 500', '--limit must be at most 200'],
  ['invitation create acme --role chief', '--role must be'],
  ['invitation create acme --role member --send', '--email is missing'],
  ['webhook create acme --url http://example.com', '--url is not an https URL'],
  ['domain add acme nodomain', "'nodomain' is not a domain"],
  ['outbound allow 10.0.0.0/4', "'10.0.0.0/4' is too wide: at least /8"],
  ['outbound allow http://mcp.internal/', "'http://mcp.internal/' is a URL: write its host"],
])('a refused field is named as the option, or as it was typed: %s', async (line, message) => {
  await using admin = await terminal();

  await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
    name: 'UsageError',
    message: expect.stringContaining(message),
  });
});

const nobody = { name: 'nobody', platform: 'linux' } as const;
const fault = (facts: object) => Object.assign(new Error('the message'), facts);

test.each<[string, Error, object]>([
  [
    'a closed port',
    fault({ code: 'EACCES', syscall: 'listen', port: 80 }),
    {
      message:
        'port 80 cannot be used: this command runs as the user nobody, who may not listen on it',
      hint: 'choose a port from 1024 up with --port, and let a reverse proxy listen on 443',
    },
  ],
  [
    'a port in use',
    fault({ code: 'EADDRINUSE', syscall: 'listen', port: 80 }),
    { message: 'port 80 is in use' },
  ],
  [
    'an address of another machine',
    fault({ code: 'EADDRNOTAVAIL', syscall: 'listen', address: '192.0.2.1', port: 1 }),
    { message: '192.0.2.1 is not an address of this machine' },
  ],
  [
    'a file of another user',
    fault({ code: 'EACCES', syscall: 'open', path: '/data/server.lock' }),
    {
      message:
        '/data/server.lock cannot be opened: this command runs as the user nobody, who may not open it',
      hint: 'run it as the user of the server, for example with sudo -u latchkey, or choose another folder with --data-dir',
    },
  ],
  ['a full disk', fault({ code: 'ENOSPC' }), { hint: expect.stringContaining('free disk space') }],
  [
    'a full disk of the database',
    fault({ code: 'ERR_SQLITE_ERROR', errcode: 13 }),
    { hint: expect.stringContaining('free disk space') },
  ],
  [
    'a database on a disk that fails',
    fault({ code: 'ERR_SQLITE_ERROR', errcode: 4618 }),
    { hint: expect.stringContaining('check that the disk of the data folder works') },
  ],
  ['any other error', fault({ code: 'EPIPE' }), { message: 'the message' }],
])('a program that ends tells %s, and what to do', (_, error, words) => {
  expect(errorWords(error, nobody)).toMatchObject(words);
});

test.each<[string, (at: TemporaryFolder) => Promise<string>, string]>([
  [
    'in a folder that does not exist',
    async ({ path }) => join(path, 'none', 'b.db'),
    'there is no folder',
  ],
  [
    'in the place of another file',
    async ({ path }) => {
      await writeFile(join(path, 'b.db'), 'x');
      return join(path, 'b.db');
    },
    'already exists',
  ],
])('a backup %s is refused', async (_, place, message) => {
  await using admin = await terminal();
  await using folder = await temporaryFolder('backup');

  await expect(admin.run('backup', await place(folder))).rejects.toMatchObject({
    name: 'CommandError',
    message: expect.stringContaining(message),
    hint: expect.stringContaining('another file'),
  });
});

test('deployment file: a policy that allows only published servers warns while there are none', async () => {
  await using admin = await terminal();
  const policy = 'deployment file vscode-policy acme --base-url https://latchkey.example'.split(
    ' ',
  );
  const warning =
    'warning: nothing is published in the registry: with this file, VS Code runs no MCP server; publish servers first';

  await admin.run(...policy);
  const before = admin.told;
  await admin.run('deployment', 'publish', 'acme/web', '--description', 'Orders');
  await admin.run(...policy);

  expect(before).toContain(warning);
  expect(admin.told).not.toContain(warning);
  expect(admin.told).not.toEqual([]);
});
