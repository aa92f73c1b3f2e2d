import { isObject, membersOf, memberOf } from 'latchkey-mcp/json-value';
import { basename, posix, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Launcher, UserHost } from '#host';
import type { EntryShape } from './assistants.ts';
import { UsageError } from './errors.ts';
import { declarations, optionNames, type Options, type OptionTexts } from './options.ts';
import { defaultStateDirectory, registryFile } from './user-files.ts';

/** An assistant's entry that starts a program. */
export type LaunchEntry = {
  type?: 'stdio';
  command: string;
  args: string[];
  env?: Record<string, string>;
};

/** The entry in the form that an assistant uses. */
export function shapedEntry(
  launcher: Launcher,
  name: string,
  { shape, env = {} }: { shape: EntryShape; env?: Readonly<Record<string, string>> },
): object {
  const typed = shape === 'typed' || shape === 'copilot';
  const entry = launchEntry(launcher, name, { typed, env });
  if (shape === 'copilot') return { ...entry, tools: ['*'] };
  if (shape !== 'opencode') return entry;
  const { command, args, env: environment } = entry;
  return { type: 'local', command: [command, ...args], ...(environment && { environment }) };
}

/** The `process` of the Node that an assistant starts. Only main.ts may read the `process` of this program. */
const processVariable = 'process';

/**
 * The entry that starts the proxy for the connection `name`. Several assistants split arguments at spaces, so no argument
 * contains any: a launcher whose path has spaces is passed as a URL in the environment, which they do not split.
 *
 * @throws {UsageError} if the program is in a folder that is likely to disappear
 */
export function launchEntry(
  launcher: Launcher,
  name: string,
  { typed, env = {} }: { typed: boolean; env?: Readonly<Record<string, string>> },
): LaunchEntry {
  if ('program' in launcher)
    return {
      ...(typed && { type: 'stdio' }),
      command: stableProgram(launcher.program),
      args: ['connect', name],
      ...(Object.keys(env).length > 0 && { env: { ...env } }),
    };
  const { node, script } = launcher;
  const blank = /[\s"'&^%!()<>|;,`$]/.test(script);
  const all = { ...env, ...(blank && { LATCHKEY_LAUNCHER: pathToFileURL(script).href }) };
  return {
    ...(typed && { type: 'stdio' }),
    command: node,
    args: blank
      ? ['-e', `import(${processVariable}.env.LATCHKEY_LAUNCHER)`, 'latchkey', 'connect', name]
      : [script, 'connect', name],
    ...(Object.keys(all).length > 0 && { env: all }),
  };
}

/** Whether an entry of a configuration file starts this program, for the connection `name` if given. */
export function isLaunch(value: unknown, name?: string): boolean {
  const words = launchWords(value);
  return startsLatchkey(words) && (name === undefined || words.slice(1).includes(name));
}

/** The command and arguments of an entry in any form. */
export function launchWords(entry: unknown): string[] {
  const { command, args }: { command?: unknown; args?: unknown } = Object(entry);
  return [command, args].flat().filter((word) => typeof word === 'string');
}

/** The connection that an entry starts, as `install` writes it: `… connect NAME`. */
export function launchedName(entry: unknown): string | undefined {
  const words = launchWords(entry);
  const connect = words.indexOf('connect');
  return connect < 0 ? undefined : words[connect + 1];
}

/** The entries of an assistant's file, with the path of each. OpenCode has a second place for them since version 2. */
export function entriesIn(
  document: unknown,
  servers: string,
): { path: readonly string[]; key: string; entry: unknown }[] {
  const under = (path: readonly string[], value: unknown) =>
    Object.entries(membersOf(value)).map(([key, entry]) => ({
      path: [...path, key],
      key,
      entry,
    }));
  const members = memberOf(document, servers);
  const all = under([servers], members);
  if (servers !== 'mcp') return all;
  const nested = memberOf(members, 'servers');
  const isEntry = isObject(nested) && ('command' in nested || 'url' in nested);
  if (nested === undefined || isEntry) return all;
  return [...all.filter(({ key }) => key !== 'servers'), ...under([servers, 'servers'], nested)];
}

/**
 * Whether a command starts `latchkey`, npx with the URL of our package, Node with the path of our launcher, or the single executable.
 */
export function startsLatchkey(words: readonly string[]): boolean {
  return words.some((word) =>
    /^latchkey((@[\w.-]+)?(\.(js|cmd|exe|ts))?|-\d[\w.+-]*\.tgz(\?.*)?|[\w.-]*\.appimage)$/i.test(
      basename(word.replaceAll('\\', '/')),
    ),
  );
}

const passing = [
  {
    place: /\/AppTranslocation\//,
    why: 'macOS runs Latchkey from a temporary copy',
    remedy: 'move Latchkey to Applications in Finder, open it from there, and try again',
  },
  {
    place: /^\/Volumes\/[^/]+\/Latchkey[^/]*\.app\//,
    why: 'Latchkey runs from its disk image, which is temporary',
    remedy: 'drag Latchkey to Applications, open it from there, and try again',
  },
  {
    place: /\/\.mount_[^/]+\//,
    why: 'this program runs inside an AppImage, at a temporary path',
    remedy: 'start the AppImage itself, or install the .deb package',
  },
];

/**
 * Returns `program` if its path is likely to stay valid after a restart or an update.
 *
 * @throws {UsageError} if it is not, with what to do
 */
export function stableProgram(program: string): string {
  const found = passing.find(({ place }) => place.test(program));
  if (!found) return program;
  throw new UsageError(
    `an assistant cannot start Latchkey from ${program}: ${found.why}`,
    found.remedy,
  );
}

/**
 * How an assistant starts `program`, our single executable, in any package. An AppImage mounts its contents at a different path
 * at each start, so the entry starts the AppImage itself, which passes arguments on to the executable in it
 * (`tray-app/build/AppRun`).
 *
 * AppImage, "Environment variables": APPIMAGE, APPDIR
 */
export function packagedLauncher(
  program: string,
  env: Readonly<Record<string, string | undefined>>,
): Launcher {
  const { APPIMAGE: image, APPDIR: mounted } = env;
  // A program that was started by another AppImage inherits the variables of that AppImage.
  const within = mounted !== undefined && program.startsWith(`${posix.resolve(mounted)}/`);
  return { program: image !== undefined && image !== '' && within ? image : program };
}

/** Whether the URL of a proxy contains a user or password, which must not be written to a file. */
export function containsUser(proxy: string): boolean {
  return proxy.includes('@');
}

/**
 * The environment that the proxy requires when an assistant starts it: the given options, and those settings of this shell that
 * assistants do not pass on: the folders of XDG variables, and the secret store and network settings of Latchkey, without
 * passwords. Usually empty.
 */
export function launchEnvironment(
  options: Options,
  given: OptionTexts,
  host: UserHost,
): Record<string, string> {
  const { stateDir, secretStore, secretStoreKeyFile, proxy } = options;
  const { caFile, clientCertificateFile, clientKeyFile } = options;
  const bare = host.platform === 'linux' ? { ...host, env: {} } : host;
  const file = registryFile(host);
  const state = stateDir ?? defaultStateDirectory(host);
  const typed = optionNames
    .filter((name) => name !== 'config')
    .flatMap((name) => {
      const value = given[name];
      if (value === undefined) return [];
      const path = name.endsWith('-file') || name.endsWith('-dir');
      return [[declarations[name].env, path ? resolve(value) : value]];
    });
  return {
    ...Object.fromEntries(typed),
    ...(file !== registryFile(bare) && { LATCHKEY_CONFIG: file }),
    ...(state !== defaultStateDirectory(bare) && { LATCHKEY_STATE_DIR: resolve(state) }),
    ...((secretStore !== 'os' || options.requiresKeychain) && {
      LATCHKEY_SECRET_STORE: secretStore,
    }),
    ...(secretStoreKeyFile !== undefined && {
      LATCHKEY_SECRET_STORE_KEY_FILE: resolve(secretStoreKeyFile),
    }),
    ...(proxy !== undefined && !containsUser(proxy) && { LATCHKEY_PROXY: proxy }),
    ...(caFile !== undefined && { LATCHKEY_CA_FILE: resolve(caFile) }),
    ...(clientCertificateFile !== undefined && {
      LATCHKEY_CLIENT_CERTIFICATE_FILE: resolve(clientCertificateFile),
    }),
    ...(clientKeyFile !== undefined && { LATCHKEY_CLIENT_KEY_FILE: resolve(clientKeyFile) }),
  };
}
