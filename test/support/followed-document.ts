import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { browserHandover } from './browser-handover.ts';
import { allow } from './consenting-person.ts';
import { cookieBrowser } from './cookie-browser.ts';
import { stepsOf, Terminals, type Step } from './documented-commands.ts';
import { freePort } from './loopback.ts';
import { inherited } from './programs.ts';
import { visitor } from './visitor.ts';

const root = join(import.meta.dirname, '../..');
const dana = { email: 'dana@example.com', password: 'correct horse battery' };
const lee = { email: 'lee@example.com', password: 'staple battery horse' };

/** The steps of README.md, and those that its readers take before a quick start. */
const readme = stepsOf(readFileSync(join(root, 'README.md'), 'utf8'));
const before = (...names: string[]) =>
  readme.filter(
    (step) => names.includes(step.name) || (step.kind === 'by hand' && names.length > 1),
  );

/** The quick starts and other pages that are followed whole, each with the steps that its readers have taken before. */
export const quickStarts: readonly (readonly [name: string, earlier: readonly Step[]])[] = [
  ['docs/quick-start-administrator.md', before('install')],
  ['docs/quick-start-employee.md', before('install', 'start')],
  ['docs/quick-start-network-engineer.md', before('install', 'start')],
  ['docs/tools.md', before('install', 'start')],
];

// A free port replaces each port that a page names, and links to the packages of this clone replace the download of
// `npm ci`; all else is done as it is written.
const timeoutMs = 60_000;

export interface ReaderOptions {
  /** The path that `clonableRepository` returned. */
  readonly repository: string;
  /** The steps that the reader has taken before. */
  readonly earlier?: readonly Step[];
  /** The environment variables that give access to a keychain; without them there is none. */
  readonly bus?: Readonly<Record<string, string>>;
  /** Whether `npx --no NAME` runs the command of the clone without npm, whose own start takes as long as most commands. */
  readonly isWithoutNpx?: boolean;
}

/**
 * Follows a document in an empty home folder, and returns how many commands that took.
 *
 * @throws {Error} naming document and line, when commands fail or print something else
 */
export async function followDocument(
  name: string,
  { repository, earlier = [], bus, isWithoutNpx = false }: ReaderOptions,
): Promise<number> {
  // The same path for every reader of a repository, so that the code that Node compiled for one serves the next.
  const home = join(dirname(repository), 'home');
  await using removed = new AsyncDisposableStack();
  removed.defer(() => rm(home, { recursive: true, maxRetries: 3 }));
  // The reader uses Claude Desktop.
  mkdirSync(join(home, '.config', 'Claude'), { recursive: true });
  await using handover = await browserHandover();
  const [port, otherPort] = [await freePort(), await freePort()];
  const base = `http://127.0.0.1:${port}`;
  const person = { who: dana };
  await using terminals = new Terminals({
    folder: home,
    stateFolder: join(home, '.terminals'),
    env: {
      ...inherited,
      HOME: home,
      PATH: await freshPath(home, { port, isWithoutNpx }),
      TMPDIR: tmpdir(),
      LANG: 'C.UTF-8',
      GIT_CONFIG_GLOBAL: gitConfiguration(home, repository),
      npm_config_update_notifier: 'false',
      ...handover.env,
      // No program may ask a developer's own keychain.
      ...(bus ?? { DBUS_SESSION_BUS_ADDRESS: `unix:path=${home}/no-bus` }),
    },
    hasKeychain: bus !== undefined,
    instead: { '8787': String(port), '3001': String(otherPort) },
    byHand: byHand(base, person),
    timeoutMs,
  });
  void (async () => {
    for (;;) await answer(await handover.next(), base, () => person.who);
  })();
  const startedAt = performance.now();
  await terminals.follow('README.md', earlier);
  await terminals.follow(name, stepsOf(readFileSync(join(root, name), 'utf8')));
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  console.log(`${name}: ${terminals.count} commands, ${seconds} s`);
  return terminals.count;
}

/** The steps that the pages leave to a person. */
function byHand(base: string, person: { who: typeof dana }) {
  const link = (printed: string, path: string) => {
    const found = [...printed.matchAll(new RegExp(`${base}(/${path}/\\S+)`, 'g'))].at(-1)?.[1];
    if (found === undefined) throw new Error(`no link of ${path} was printed`);
    return found;
  };
  const done = (response: Response) => {
    if (response.status !== 303) throw new Error(`the form was not taken: ${response.status}`);
  };
  return {
    'make the first owner': async (printed: string) => {
      const { email, password } = dana;
      const fields = { email, password, repeated: password, organization: 'acme' };
      done(await visitor(base).submit(link(printed, 'set-up'), fields));
    },
    'accept the invitation': async (printed: string) => {
      person.who = lee;
      const path = link(printed, 'invitation');
      const browser = visitor(base);
      const csrf_token = await browser.csrfToken(path);
      const { email, password } = lee;
      done(
        await browser.post(`${path}/account`, { csrf_token, email, password, repeated: password }),
      );
    },
  };
}

/** Acts as a person on a page that a program opens, in one browser: follows it to the sign-in, allows, and comes back. */
async function answer(address: string, base: string, who: () => typeof dana): Promise<void> {
  const browser = cookieBrowser();
  let page = new URL(address);
  while (page.origin !== base) page = await browser.follow(page);
  await browser.open(await allow(page, who()));
}

/** Makes a repository in `folder` with the current files of this clone, for readers to clone; its path. */
export function clonableRepository(folder: string): string {
  const repository = join(folder, 'repository.git');
  const env = { ...process.env, GIT_DIR: repository, GIT_WORK_TREE: root };
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, env, stdio: 'pipe' });
  git('init', '-q');
  git('config', 'core.compression', '0');
  git('add', '--all');
  git('-c', 'user.name=test', '-c', 'user.email=test@example.com', 'commit', '-q', '-m', 'now');
  return repository;
}

/** A Git configuration that maps the address in the documents to `repository`; its path. */
function gitConfiguration(home: string, repository: string): string {
  const file = join(home, '.gitconfig');
  writeFileSync(
    file,
    `[url "${repository}"]\n\tinsteadOf = https://git.example.com/latchkey.git\n`,
  );
  return file;
}

/**
 * A `PATH` with the machine's own programs, except that `npm ci` makes links instead of downloading, and that servers use this port;
 * `isWithoutNpx` as in `ReaderOptions`.
 */
async function freshPath(
  home: string,
  { port, isWithoutNpx }: { port: number; isWithoutNpx: boolean },
): Promise<string> {
  const folder = join(home, '.bin');
  mkdirSync(folder);
  const entries = (process.env['PATH'] ?? '').split(delimiter);
  const path = entries.filter((entry) => !entry.includes('node_modules')).join(delimiter);
  const packages = ['', 'proxy', 'server', 'tray-app']
    .map((part) => join(part, 'node_modules'))
    .filter((part) => existsSync(join(root, part)));
  const links = packages.map((part) => {
    const names = readdirSync(join(root, part)).filter((name) => !/^\.(?!bin$)/.test(name));
    // The links to the workspaces and to their commands are copied, so that they lead into the reader's own clone.
    const isCopied = (name: string) =>
      name === '.bin' || lstatSync(join(root, part, name)).isSymbolicLink();
    const into = (command: string, wanted: boolean) => {
      const chosen = names.filter((name) => isCopied(name) === wanted);
      const files = chosen.map((name) => `'${join(root, part, name)}'`);
      return files.length === 0 ? [] : [[command, ...files, `${part}/`].join(' ')];
    };
    return [`mkdir ${part}`, ...into('cp -a', true), ...into('ln -s', false)].join('\n');
  });
  const elsewhere = [`LATCHKEY_PORT=${port}`, `LATCHKEY_BASE_URL=http://127.0.0.1:${port}`].join(
    ' ',
  );
  const isServer = `case "$*" in start|*latchkey-server*) export ${elsewhere};; esac`;
  const command = [
    'if [ "$1" = --no ] && [ -x "node_modules/.bin/$2" ]; then',
    'shift; name=$1; shift; PATH="$PWD/node_modules/.bin:$PATH"; exec "node_modules/.bin/$name" "$@"',
    'fi',
  ].join('\n');
  const shims = {
    npm: `if [ "$1" = ci ]; then\nset -e\n${links.join('\n')}\nexit\nfi\n${isServer}\nexec npm "$@"`,
    npx: `${isServer}\n${isWithoutNpx ? command : ''}\nexec npx "$@"`,
  };
  for (const [name, script] of Object.entries(shims)) {
    const file = join(folder, name);
    writeFileSync(file, `#!/bin/sh\nPATH='${path}'\n${script}\n`);
    await chmod(file, 0o755);
  }
  return `${folder}${delimiter}${path}`;
}
