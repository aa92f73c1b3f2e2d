import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, realpath, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { runProgram } from '#support/processes';
import { launcher } from '#support/proxy-process';

const sales = '{"mcpServers":{"sales":{"url":"https://a.example/mcp","account":"sales"}}}';

async function homeWithSales() {
  const home = await latchkeyHome({});
  await home.write('.config/latchkey/connections.json', sales);
  return home;
}

test.each([
  ['connect', 'saels'],
  ['login', 'saels'],
  ['logout', 'saels'],
  ['rotate', 'saels'],
  ['remove', 'saels'],
  ['rename', 'saels', 'other'],
  ['status', 'saels'],
  ['tools', 'saels'],
  ['doctor', 'saels'],
])('wrong usage: %s refuses a mistyped connection and suggests the right one', async (...words) => {
  await using home = await homeWithSales();

  const { code, stdout, stderr } = await home.run(words);

  expect({ code, stdout, stderr }).toEqual({
    code: 2,
    stdout: '',
    stderr: 'latchkey: no connection named saels\nhint: did you mean sales?\n',
  });
});

test('wrong usage: a name without a similar one is answered with how to list and add connections', async () => {
  await using home = await homeWithSales();

  const { code, stderr } = await home.run(['login', 'nothing']);

  expect(code).toBe(2);
  expect(stderr).toBe(
    'latchkey: no connection named nothing\nhint: latchkey status lists the connections, latchkey setup URL adds one\n',
  );
});

test('exit code: a broken file is a failure of the command, and no wrong usage', async () => {
  await using home = await latchkeyHome({});
  await home.write('.config/latchkey/connections.json', '{');

  const { code, stderr } = await home.run(['login', 'sales']);

  expect(code).toBe(1);
  expect(stderr).toContain('is not valid JSON');
});

const runIn = async ({ path, env }: LatchkeyHome, args: string[], more: Record<string, string>) =>
  runProgram(process.execPath, {
    args: [launcher, ...args],
    cwd: path,
    env: {
      ...env,
      XDG_CONFIG_HOME: undefined,
      XDG_STATE_HOME: undefined,
      XDG_DATA_HOME: undefined,
      NODE_EXTRA_CA_CERTS: undefined,
      HTTPS_PROXY: undefined,
      https_proxy: undefined,
      ...more,
    },
  });

test('install: the entry contains the proxy of Latchkey that the shell sets', async () => {
  await using home = await homeWithSales();
  const proxy = 'http://proxy.example.com:3128';

  const { code, stderr } = await runIn(home, ['install', 'cursor', 'sales'], {
    LATCHKEY_PROXY: proxy,
    HTTPS_PROXY: 'http://other.example.com:3128',
  });

  expect(code).toBe(0);
  expect(stderr).not.toContain('note:');
  expect(JSON.parse((await home.read('.cursor/mcp.json')) ?? '')).toMatchObject({
    mcpServers: { sales: { env: { LATCHKEY_PROXY: proxy } } },
  });
});

test('install: a proxy with a password is in no file, and a note says what to do', async () => {
  await using home = await homeWithSales();

  const { code, stdout, stderr } = await runIn(home, ['install', 'cursor', 'sales', '--json'], {
    LATCHKEY_PROXY: 'http://dana:hunter2@proxy.example.com:3128',
  });

  expect(code).toBe(0);
  expect(stderr).toContain('note: LATCHKEY_PROXY contains a password');
  expect(`${stdout}${stderr}${await home.read('.cursor/mcp.json')}`).not.toContain('hunter2');
});

test('install: a note says how to pass HTTPS_PROXY on', async () => {
  await using home = await homeWithSales();

  const { stderr } = await runIn(home, ['install', 'cursor', 'sales'], {
    HTTPS_PROXY: 'http://proxy.example.com:3128',
  });

  expect(stderr).toContain(
    'note: your assistants may not inherit HTTPS_PROXY: to pass it on, run the command again with --proxy http://proxy.example.com:3128\n',
  );
});

test.each([
  ['install', 'cursor', 'sales'],
  ['setup', 'https://a.example/mcp', '--yes'],
  ['import', 'cursor'],
])('wrong usage: %s refuses a file of authorities that does not exist', async (...words) => {
  await using home = await homeWithSales();

  const { code, stderr } = await home.run([...words, '--ca-file', '/nope.pem']);

  expect(code).toBe(2);
  expect(stderr).toBe(
    'latchkey: /nope.pem: cannot be read (ENOENT)\nhint: choose a readable file with --ca-file\n',
  );
  expect(await home.read('.cursor/mcp.json')).toBeUndefined();
});

test.each(['install', 'uninstall'])(
  'wrong usage: %s says that the assistant comes first',
  async (command) => {
    await using home = await homeWithSales();

    const { code, stderr } = await home.run([command, 'sales', 'cursor']);

    expect(code).toBe(2);
    expect(stderr).toBe(
      `latchkey: the assistant comes first, then the connection\nhint: did you mean latchkey ${command} cursor sales?\n`,
    );
  },
);

test('agent install: a key file that does not exist is named, even by a dry run', async () => {
  await using home = await latchkeyHome({});
  const words = ['--server-url', 'https://a.example', '--key-file', 'nope', '--dry-run'];

  const { code, stdout, stderr } = await home.run(['agent', 'install', ...words]);

  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain(
    `the key file ${join(await realpath(home.path), 'nope')} does not exist`,
  );
});

test('install: --config names the file that is changed', async () => {
  await using home = await homeWithSales();

  const { code } = await home.run(['install', 'claude-code', 'sales', '--config', '.mcp.json']);

  expect(code).toBe(0);
  expect(await home.read('.mcp.json')).toContain('"sales"');
  expect(await home.read('.claude.json')).toBeUndefined();
});

test('hints: where npx found the program, their commands begin with npx; without it, and as JSON, they do not', async () => {
  await using home = await latchkeyHome({});
  const bin = join(home.path, 'node_modules/.bin');
  const found = join(bin, 'latchkey');
  await mkdir(bin, { recursive: true });
  await symlink(launcher, found);
  const npx = { npm_lifecycle_event: 'npx', npm_config_local_prefix: home.path };
  const run = async (args: string[], script = found) =>
    runProgram(process.execPath, {
      args: [script, ...args],
      env: { ...home.env, ...npx },
      cwd: home.path,
    });

  const empty = await run(['status']);
  const misspelt = await run(['logni']);
  const bare = await run(['tools']);
  const help = await run(['--help']);
  const installed = await run(['status'], launcher);
  const doctor = await run(['doctor', '--json']);

  expect(empty.stdout).toContain('hint: add a connection with npx --no latchkey setup URL');
  expect(misspelt.stderr).toContain('hint: did you mean npx --no latchkey login?');
  expect(bare.stderr).toBe(
    'latchkey: latchkey tools needs NAME|URL\nhint: for example: npx --no latchkey tools acme\n',
  );
  expect(help.stdout).toMatch(/\n\nType npx --no latchkey in place of latchkey\.\n$/);
  expect(installed.stdout).toContain('hint: add a connection with latchkey setup URL');
  expect(doctor.stdout).not.toContain('npx');
});

test.each([
  ['status', 1, 'stderr'],
  ['servers', 1, 'stderr'],
  ['doctor', 1, 'stdout'],
] as const)(
  'broken connections file: %s does not take it for an empty one',
  async (command, exit, stream) => {
    await using home = await latchkeyHome({});
    await home.write('.config/latchkey/connections.json', '{');

    const ended = await home.run([command]);

    expect(ended.code).toBe(exit);
    expect(ended[stream]).toContain('connections.json: is not valid JSON');
    expect(ended.stdout + ended.stderr).not.toContain('no Latchkey server is known');
  },
);

test.each(['status', 'doctor'])(
  '--config: %s says that the file does not exist',
  async (command) => {
    await using home = await latchkeyHome({});

    const { code, stdout, stderr } = await home.run([command, '--config', './none.json']);

    expect(code).toBe(1);
    expect(stdout + stderr).toContain('./none.json: does not exist');
  },
);

test('file that cannot be written: the command says so, without a stack trace', async () => {
  await using home = await latchkeyHome({});
  const key = join(home.path, 'key');
  await writeFile(key, 'k'.repeat(44), { mode: 0o600 });
  await home.write('.local/state/latchkey/loose', '');
  const store = { LATCHKEY_SECRET_STORE: 'file', LATCHKEY_SECRET_STORE_KEY_FILE: key };

  const add = ['add', 'x', 'https://a.example/mcp', '--no-check'];
  const { code, stderr } = await runIn(home, add, store);

  expect(code).toBe(1);
  expect(stderr).toMatch(/^latchkey: E[A-Z]+: .*latchkey\/loose.*\nhint: check the path/);
});

/** Runs a command whose standard output is `stdout`, and returns its exit code and what it wrote to standard error. */
async function writingTo(stdout: number | 'pipe', { path, env }: LatchkeyHome, ...args: string[]) {
  const child = spawn(process.execPath, [launcher, ...args], {
    cwd: path,
    env: { ...env },
    stdio: ['ignore', stdout, 'pipe'],
  });
  const errors: Buffer[] = [];
  child.stderr?.on('data', (chunk: Buffer) => errors.push(chunk));
  // As `head -1` does.
  child.stdout?.once('data', () => child.stdout?.destroy());
  const [code] = await once(child, 'close');
  return { code, stderr: Buffer.concat(errors).toString() };
}

test('output: a command whose reader has seen enough runs to its end', async () => {
  await using home = await latchkeyHome({});

  const { code, stderr } = await writingTo('pipe', home, 'doctor');

  // There is no keychain.
  expect(code).toBe(1);
  expect(stderr).toBe('');
});

test.runIf(process.platform === 'linux')('output: that of a full disk is reported', async () => {
  await using home = await latchkeyHome({});
  await using full = await open('/dev/full', 'w');

  expect(await writingTo(full.fd, home, 'status')).toEqual({
    code: 1,
    stderr: 'latchkey: the output could not be written (ENOSPC)\n',
  });
});
