// How a person starts this program in a terminal. Texts name it `latchkey`; who started it with npx has no such command.
import { posix, win32 } from 'node:path';
import { memberOf, parseObject } from 'latchkey-mcp/json-value';
import type { Host, Launcher } from '#host';

type Texts = { readText: (path: string) => string | undefined };

/** The folder into which npx installs packages, up to its own package.json. */
const npxFolder = /^(.*[\\/]_npx[\\/][^\\/]+[\\/])node_modules[\\/]/;
/** No package of a registry is named, because anybody could publish one with this name. */
const unknown = 'install Latchkey from the file or URL that you started it from';

/**
 * What to do if npx runs this program, whose folder npm may delete at any time; `undefined` if it is installed. The package
 * came from the URL of a server, and is installed from the same one.
 */
export function npxHint(launcher: Launcher, { readText }: Texts): string | undefined {
  const folder = npxFolderOf(launcher);
  if (folder === undefined) return undefined;
  const source = urlIn(readText(`${folder}package.json`));
  const remedy =
    source === undefined ? unknown : `npm install --global "${source}" installs it permanently`;
  return `npx may delete this program; ${remedy}`;
}

/**
 * The beginning of the commands of a person who starts this program as `startedAs`, the path of the script as the shell found it:
 * `npx -y "URL"` for the package of a server, `npx --no latchkey` for one that only npx finds, and otherwise `latchkey`.
 */
export function typedProgram(
  { launcher, env, platform }: Pick<Host, 'launcher' | 'env' | 'platform'>,
  startedAs: string,
  { readText }: Texts,
): string {
  const folder = npxFolderOf(launcher);
  if (folder !== undefined) return npxCommand(readText(`${folder}package.json`), folder, platform);
  const { npm_lifecycle_event: event, npm_config_local_prefix: project } = env;
  const path = platform === 'win32' ? win32 : posix;
  const modules = project && path.join(project, 'node_modules') + path.sep;
  const isInProject = modules !== undefined && modules !== '' && startedAs.startsWith(modules);
  return event === 'npx' && isInProject ? 'npx --no latchkey' : 'latchkey';
}

/**
 * Where a text names a command. Anything else after the name, such as in the name `latchkey wiki` of a connection, is data. What
 * follows `npx --no` is typed already.
 */
const suggested =
  /(?<!^latchkey: )(?<!npx --no (?:-- )?)(?<![\w/.@-])latchkey(?= (?:--|(?:setup|connect|add|remove|rename|rotate|import|install|uninstall|login|logout|servers|devices|status|tools|doctor|agent|completion|help)(?![\w.-])))/g;

/**
 * A text for people whose commands begin with `program`. The name at the beginning of an error message, and of what it says about a
 * command, stays. A text that is typed already stays as it is.
 */
export function asTyped(text: string, program: string): string {
  if (program === 'latchkey') return text;
  // The path of a package may contain what looks like a command.
  const parts = text.split(program).map((part) =>
    part.replaceAll(suggested, (_, at: number) =>
      // npx reads what follows, up to the first word.
      part.startsWith('latchkey --', at) ? program.replace(/^npx --no /, 'npx --no -- ') : program,
    ),
  );
  return parts.join(program);
}

function npxFolderOf(launcher: Launcher): string | undefined {
  return 'script' in launcher ? npxFolder.exec(launcher.script)?.[1] : undefined;
}

/** How npx is made to run the package in its folder again: by URL or file, or by the name of one that it has fetched from a registry. */
function npxCommand(text: string | undefined, folder: string, platform: NodeJS.Platform): string {
  const path = platform === 'win32' ? win32 : posix;
  const { latchkey: found, given } = manifestOf(text);
  const file = /^file:([\w@%+=,./\\: ~-]+)$/.exec(found)?.[1];
  const source = file === undefined ? urlIn(text) : path.resolve(folder, file);
  if (source !== undefined) return `npx -y "${source}"`;
  return /^[\w.^~*-]+$/.test(found) ? `npx --no ${given}` : 'latchkey';
}

/** The URL of the package, which messages and logs repeat; `undefined` if it contains a user or a password. */
function urlIn(text: string | undefined): string | undefined {
  const { latchkey: source } = manifestOf(text);
  // In quotes, a shell would act on the characters that are left out.
  if (!/^https?:\/\/[#%-[\]-_a-~]+$/.test(source)) return undefined;
  const { username, password } = URL.parse(source) ?? {};
  return username === '' && password === '' ? source : undefined;
}

/** What a package.json of npx says: where our package is from, and the name that npx was given for it. */
function manifestOf(text: string | undefined): { latchkey: string; given: string } {
  const { dependencies, _npx: npx } = parseObject(text) ?? {};
  const latchkey = memberOf(dependencies, 'latchkey');
  const packages = memberOf(npx, 'packages');
  const names = Array.isArray(packages) ? packages.map(String) : [];
  return {
    latchkey: typeof latchkey === 'string' ? latchkey : '',
    given: names.find((name) => /^latchkey(@[\w.^~*-]+)?$/.test(name)) ?? 'latchkey',
  };
}
