import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { allCommands } from '#proxy/cli/commands';
import { completionScript } from '#proxy/cli/completion';
import { help as proxyHelp } from '#proxy/cli/help';
import { keysOf } from '#support/made-records';
import { commands as serverCommands } from '#server/cli/commands';
import { commandHelpText, helpText, nounHelpText, startHelpText } from '#server/cli/help';
import { dataDir } from '#server/config/option';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { startProgram } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { registryCommands } from '#support/registry-commands';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');

/** Offending commands by where they are. */
function offenders(texts: ReadonlyMap<string, string>): string[] {
  return [...texts].flatMap(([where, text]) =>
    registryCommands(text).map((command) => `${where}: ${command}`),
  );
}

function filesIn(
  folder: string,
  pattern: RegExp,
  { recursive = true } = {},
): ReadonlyMap<string, string> {
  const files = readdirSync(join(root, folder), { recursive, encoding: 'utf8' })
    .map((name) => join(root, folder, name))
    .filter((file) => pattern.test(file))
    .filter((file) => !/[/\\](node_modules|dist|out)[/\\]/.test(relative(root, file)));
  return new Map(files.map((file) => [relative(root, file), readFileSync(file, 'utf8')]));
}

/** What `start --demo` prints. */
async function demoStart(launcher: string, folder: string): Promise<string> {
  await using server = startProgram(process.execPath, {
    args: [
      launcher,
      'start',
      '--demo',
      '--show-demo-credentials',
      '--port',
      '0',
      '--data-dir',
      folder,
    ],
  });
  await server.line(/^listening on /m);
  await server.end();
  return server.stdout;
}

describe('no package name of a public registry is run or installed', () => {
  test.each([
    ['proxy', /\.ts$/, 130],
    ['server', /\.ts$/, 250],
    ['mcp', /\.ts$/, 7],
    ['tray-app', /\.(ts|html)$/, 20],
  ] as const)('by the texts of %s', (folder, pattern, least) => {
    const texts = filesIn(folder, pattern);

    expect(texts.size).toBeGreaterThan(least);
    expect(offenders(texts)).toEqual([]);
  });

  test('by a document', () => {
    const texts = new Map(filesIn('', /\.md$/, { recursive: false }));
    for (const folder of ['docs', 'proxy', 'server', 'tray-app', 'test']) {
      for (const [file, text] of filesIn(folder, /\.md$/)) texts.set(file, text);
    }

    expect([...texts.keys()]).toEqual(
      expect.arrayContaining(['README.md', 'CONTRIBUTING.md', 'docs/skills.md', 'proxy/README.md']),
    );
    expect(offenders(texts)).toEqual([]);
  });

  test('by the help of any command of either program', async () => {
    const proxyCommands = await allCommands();
    const proxyHelps = await Promise.all(
      proxyCommands.map(
        async (command) => [`latchkey ${command.name}`, await proxyHelp(command)] as const,
      ),
    );
    const nouns = new Set(serverCommands.map(({ words }) => words.split(' ')[0] ?? ''));
    const texts = new Map([
      ['latchkey --help', await proxyHelp()],
      ...proxyHelps,
      ...(['bash', 'zsh'] as const).map(
        (shell) => [`completion ${shell}`, completionScript(shell, proxyCommands)] as const,
      ),
      ['latchkey-server --help', helpText('0.0.0')],
      ['latchkey-server start --help', startHelpText()],
      ...[...nouns].map((noun) => [noun, nounHelpText(noun) ?? ''] as const),
      ...serverCommands.map(
        (command) => [command.words, commandHelpText(command, [dataDir])] as const,
      ),
    ]);

    expect(texts.size).toBeGreaterThan(80);
    expect(offenders(texts)).toEqual([]);
  });

  test.each([
    ['a clone', join(root, 'server/bin/latchkey-server.js'), 'npx --no latchkey', 'npx --no '],
    ['its package', serverLauncher, 'npx -y "http://127.0.0.1:', ''],
  ])(
    'by the output of the demo’s first and second start, from %s',
    async (_, launcher, proxy, runner) => {
      await using folder = await temporaryFolder('demo');
      const first = await demoStart(launcher, folder.path);
      const second = await demoStart(launcher, folder.path);

      expect(first).toContain(`for ${proxy}`);
      expect(second).toContain(
        ` ${runner}latchkey-server key create demo/library --name "my key" --data-dir ${folder.path}`,
      );
      expect(offenders(new Map(Object.entries({ first, second })))).toEqual([]);
    },
  );
});

describe('no package name of a public registry is run or installed by a page', () => {
  let app: PageApp;
  let owner: SignedInBrowser;
  beforeAll(async () => {
    app = await pageApp();
    owner = await app.browser('user_owner', { organizationId: 'org_acme', role: 'owner' });
  });
  afterAll(() => app[Symbol.asyncDispose]());

  const send = async (path: string, fields: Record<string, string>) => {
    const body = new URLSearchParams({ csrf_token: owner.csrfToken, ...fields }).toString();
    return app.post({ path: `/dashboard/acme${path}`, cookie: owner.cookie, body });
  };

  test('that shows a new secret', async () => {
    const { stores, client } = app.server;
    const scopes = { 'scopes.mcp:tools:read': 'mcp:tools:read' };
    const made = [
      await send('/servers/sales/new-key', { name: 'once', ...scopes }),
      await send('/servers/sales/new-client', { name: 'once', ...scopes }),
      await send('/new-agent', { name: 'office' }),
    ];
    const [key] = await keysOf(stores.db, 'acme', 'sales');
    const rotated = [
      await send(`/servers/sales/keys/${key?.id}/rotate`, {}),
      await send(`/servers/sales/clients/${client.id}/rotate`, {}),
      await send('/agents/office/rotate', {}),
    ];
    const answers = [...made, ...rotated];
    const texts = new Map(answers.map(({ text }, at) => [String(at), text]));

    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(answers.filter(({ text }) => text.includes('npx'))).toHaveLength(5);
    expect(offenders(texts)).toEqual([]);
  });

  test('that a link leads to, from the dashboard, the account and the download', async () => {
    const wanted = ['/dashboard/acme', '/account', '/organizations', '/download/'];
    const texts = new Map<string, string>();
    for (let path = wanted.pop(); path !== undefined; path = wanted.pop()) {
      if (texts.has(path)) continue;
      const { status, text } = await app.get(path, owner.cookie);
      texts.set(path, text);
      if (status !== 200) continue;
      for (const [, link = ''] of text.matchAll(/href="(\/[^"#?]*)[^"]*"/g)) {
        if (!/\.(css|js|csv|tgz)$|\/(live|sign-out|sso)$/.test(link)) wanted.push(link);
      }
    }

    expect(texts.size).toBeGreaterThan(30);
    expect([...texts.values()].filter((text) => text.includes('npx')).length).toBeGreaterThan(2);
    expect(offenders(texts)).toEqual([]);
  });
});
