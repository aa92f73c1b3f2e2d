import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { AccountsError, openAccounts } from '#proxy/app/accounts';
import { assistantFile } from '#proxy/config/assistants';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://acme.example/mcp';
const secret = `mcp_${'k'.repeat(36)}`;
const own = '.config/latchkey/connections.json';

/** A person with the connection `sales`, and the files that a test writes. */
async function person(env: NodeJS.ProcessEnv = {}) {
  const folder = await temporaryFolder('home');
  const keyFile = join(folder.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const write = async (file: string, text: string) => {
    await mkdir(dirname(join(folder.path, file)), { recursive: true });
    await writeFile(join(folder.path, file), text);
  };
  await write(own, JSON.stringify({ mcpServers: { sales: { url, account: 'sales' } } }));
  const service = openAccounts({
    platform: 'linux',
    home: folder.path,
    env,
    pid: 2,
    parentPid: 1,
    nodeVersion: process.versions.node,
    launcher: { program: '/opt/latchkey' },
    options: { 'secret-store': 'file', 'secret-store-key-file': keyFile },
  });
  return {
    service,
    write,
    path: folder.path,
    read: async (file: string) => readFile(join(folder.path, file), 'utf8').catch(() => undefined),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const variables = ['LATCHKEY_SECRET_STORE', 'LATCHKEY_SECRET_STORE_KEY_FILE'];

/** The text of an installed file, with `KEY` for the path of the key file, which differs in each test. */
const shown = (text: string | undefined, home: string) =>
  (text ?? '').replaceAll(join(home, 'key'), 'KEY');

const codex = {
  id: 'codex',
  file: '.codex/config.toml',
  before: '# mine\nmodel = "gpt-5"\n\n[mcp_servers.docs]\ncommand = "npx" # keep\n',
  after: `
[mcp_servers.sales]
command = "/opt/latchkey"
args = ["connect", "sales"]
env = { ${variables[0]} = "file", ${variables[1]} = "KEY" }
`,
};
const env = `{
        "${variables[0]}": "file",
        "${variables[1]}": "KEY"
      }`;
const copilot = {
  id: 'copilot-cli',
  file: '.copilot/mcp-config.json',
  before: '{\n  "mcpServers": {\n    "docs": { "command": "npx" }',
  after: `,
    "sales": {
      "type": "stdio",
      "command": "/opt/latchkey",
      "args": [
        "connect",
        "sales"
      ],
      "env": ${env},
      "tools": [
        "*"
      ]
    }
  }
}
`,
};
const opencode = {
  id: 'opencode',
  file: '.config/opencode/opencode.jsonc',
  before: '{\n  "mcp": {\n    // mine\n    "docs": { "type": "local", "command": ["npx"] }',
  after: `,
    "sales": {
      "type": "local",
      "command": [
        "/opt/latchkey",
        "connect",
        "sales"
      ],
      "environment": ${env}
    }
  }
}
`,
};

test.each([codex, copilot, opencode])(
  'assistants: $id gets an entry in its own format, and loses that alone again',
  async ({ id, file, before, after }) => {
    await using at = await person();
    const original = id === 'codex' ? before : `${before}\n  }\n}\n`;
    await at.write(file, original);
    const found = (await at.service.assistants()).find((one) => one.id === id);
    await at.service.install(id, 'sales');
    const installed = await at.read(file);
    const view = (await at.service.assistants()).find((one) => one.starts.length > 0);
    await at.write(file, `${installed ?? ''}\n`);
    const done = await at.service.uninstall(id, 'sales');

    expect(found).toMatchObject({ found: true, file: join(at.path, file) });
    expect(shown(installed, at.path)).toBe(before + after);
    expect(view).toMatchObject({ id, starts: ['sales'] });
    expect(done).toMatchObject({ did: 'removed' });
    expect((await at.read(file))?.trimEnd()).toBe(original.trimEnd());
  },
);

const authorization = { Authorization: `Bearer ${secret}` };
const imported = { url, name: 'acme', moved: ['header authorization'] };
test.each([
  [
    codex.file,
    `[mcp_servers.acme]\nurl = "${url}"\nhttp_headers = { Authorization = "Bearer ${secret}" } # ${secret}\nenabled = false\ndisabled_tools = ["delete"]\ntool_timeout_sec = 20\n`,
    ['args = ["connect", "acme"]', 'enabled = false', 'disabled_tools = ["delete"]', 'sec = 20'],
  ],
  [
    codex.file,
    `mcp_servers.acme = { url = "${url}", http_headers = { "Authorization" = 'Bearer ${secret}' } }\n`,
    ['[mcp_servers.acme]\ncommand = "/opt/latchkey"'],
  ],
  [
    copilot.file,
    JSON.stringify({
      mcpServers: { acme: { type: 'http', url, headers: authorization, tools: ['a'] } },
    }),
    ['"tools":["a"]', '"type":"stdio"'],
  ],
  [
    opencode.file,
    JSON.stringify({
      mcp: { acme: { type: 'remote', url, headers: authorization, enabled: false } },
    }),
    ['"enabled":false', '"command":["/opt/latchkey","connect","acme"]'],
  ],
  [
    '.config/opencode/opencode.json',
    JSON.stringify({ mcp: { servers: { acme: { type: 'remote', url, headers: authorization } } } }),
    ['"servers":{"acme":{"type":"local"'],
  ],
])(
  'import: a key in %s is moved to the keychain, and other settings stay',
  async (file, text, parts) => {
    await using at = await person();
    await at.write(file, text);
    await at.write('.config/opencode/opencode.jsonc', file === opencode.file ? text : '{}');
    const plan = await at.service.importable();
    const { backup = '' } = await at.service.import(join(at.path, file));
    const after = (await at.read(file))?.replaceAll(/\n *|(?<=:) /g, '');
    const views = await at.service.listConnections();

    expect(plan).toMatchObject({ entries: [imported], problems: [] });
    for (const part of parts) expect(after).toContain(part.replaceAll(/\n/g, ''));
    expect(after).not.toContain(secret);
    expect(await readFile(backup, 'utf8')).not.toContain(secret);
    expect(views.find(({ name }) => name === 'acme')).toMatchObject({ state: 'ready' });
  },
);

test.each([
  [
    codex.file,
    `[mcp_servers.a]\nurl = "${url}"\nbearer_token_env_var = "T"\nhttp_headers = { x-key = "${secret}" }\n`,
    'bearer_token_env_var',
  ],
  [
    opencode.file,
    JSON.stringify({
      mcp: { a: { url, headers: { 'x-key': secret, Authorization: '{env:TOKEN}' } } },
    }),
    '{env:TOKEN}',
  ],
])(
  'import: a key in %s is reported if the entry also has a value that only the assistant can fill in',
  async (file, text, part) => {
    await using at = await person();
    await at.write(file, text);
    const { entries, problems } = await at.service.importable();

    expect(entries).toEqual([]);
    expect(problems).toMatchObject([{ name: 'a', problem: expect.stringContaining(part) }]);
    expect(JSON.stringify(problems)).not.toContain(secret);
  },
);

test('import: references to variables and files that an assistant fills in are not secrets', async () => {
  await using at = await person();
  const entry = { type: 'remote', url, headers: { Authorization: 'Bearer {env:TOKEN}' } };
  await at.write(opencode.file, JSON.stringify({ mcp: { a: entry } }));
  await at.write(codex.file, `[mcp_servers.a]\nurl = "${url}"\nbearer_token_env_var = "TOKEN"\n`);

  expect(await at.service.importable()).toEqual({ entries: [], problems: [] });
});

test('assistants: CODEX_HOME, COPILOT_HOME and XDG_CONFIG_HOME change where their files are', async () => {
  await using at = await person({ CODEX_HOME: '/c', COPILOT_HOME: '/p', XDG_CONFIG_HOME: '/x' });
  const files = (await at.service.assistants()).map(({ file }) => file);

  expect(files.slice(-3)).toEqual([
    '/c/config.toml',
    '/p/mcp-config.json',
    '/x/opencode/opencode.json',
  ]);
});

test('assistants: a Codex file that is not TOML is a problem, and nothing is written', async () => {
  await using at = await person();
  await at.write(codex.file, `key = "${secret}\n`);
  const before = await readdir(join(at.path, '.codex'));
  const refused = at.service.install('codex', 'sales');

  await expect(refused).rejects.toThrow(AccountsError);
  await expect(refused).rejects.toThrow('config.toml:1:');
  await expect(refused).rejects.not.toThrow(secret);
  expect(await readdir(join(at.path, '.codex'))).toEqual(before);
  expect((await at.service.assistants()).find(({ id }) => id === 'codex')?.problem).toBe(
    'is not valid TOML',
  );
});

test('assistants: after an installation in Gemini CLI, a note says which folders it ignores', async () => {
  await using at = await person();

  expect(await at.service.install('gemini', 'sales')).toMatchObject({
    changed: true,
    note: 'Gemini CLI ignores MCP servers in folders that you have not trusted',
  });
  expect(await at.service.install('cursor', 'sales')).not.toHaveProperty('note');
});

test('assistants: an entry to which an assistant connects directly requires no sign-in in Latchkey', async () => {
  await using at = await person();
  const started = { command: 'latchkey', args: ['https://b.example/mcp'] };
  const servers = { own: { type: 'http', url: 'https://a.example/mcp' }, started };
  await at.write('.claude.json', JSON.stringify({ mcpServers: servers }));
  await at.write(
    '.config/Claude/claude_desktop_config.json',
    JSON.stringify({ mcpServers: { desk: { url: 'https://c.example/mcp' } } }),
  );
  const views = await at.service.listConnections();

  expect(views.map(({ name, state }) => [name, state])).toEqual([
    ['sales', 'needs_sign_in'],
    ['desk', 'needs_sign_in'],
    ['started', 'needs_sign_in'],
  ]);
});

test.each([
  ['cursr', 'did you mean cursor?'],
  ['claude', 'did you mean claude-desktop or claude-code?'],
  ['sales', 'the assistants are claude-desktop'],
])('assistants: the unknown name %s is named, with a hint', (name, hint) => {
  const host = { home: '/home/lee', platform: 'linux' as const, env: {} };

  expect(() => assistantFile(name, undefined, host)).toThrow(
    expect.objectContaining({
      message: `unknown assistant ${name}`,
      hint: expect.stringContaining(hint),
    }),
  );
});
