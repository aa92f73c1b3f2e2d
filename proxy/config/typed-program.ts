// How a person starts this program in a terminal. Texts call it `latchkey`, but a person who started it with npx has no such command.
import { posix, win32 } from 'node:path';
import { memberOf, parseObject } from 'latchkey-mcp/json-value';
import type { Host, Launcher } from '#host';

type Texts = { readText: (path: string) => string | undefined };

/** The folder into which npx installs packages, up to its own package.json. */
const npxFolder = /^(.*[\\/]_npx[\\/][^\\/]+[\\/])node_modules[\\/]/;
/** No package of a registry is named, because anybody could publish one with this name. */
const unknown = 'install Latchkey from the file or URL that you started it from';

/**
 * The hint for a program that npx runs, because npm may delete its folder at any time; `undefined` if the program is installed. The
 * package came from the URL of a server, and the hint installs it from that URL.
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
 * Matches `latchkey` where it begins a command. Elsewhere it is data, as in `latchkey wiki`, the name of a connection. After
 * `npx --no`, the command is complete already.
 */
const suggested =
  /(?<!^latchkey: )(?<!npx --no (?:-- )?)(?<![\w/.@-])latchkey(?= (?:--|(?:setup|connect|add|remove|rename|rotate|import|install|uninstall|login|logout|servers|devices|status|tools|doctor|agent|completion|help)(?![\w.-])))/g;

/**
 * Rewrites a text for people whose commands begin with `program`. An error message keeps the name at its beginning, and a command
 * directly after that name. Commands that already begin with `program` stay as they are.
 */
export function asTyped(text: string, program: string): string {
  if (program === 'latchkey') return text;
  // The path of a package may contain what looks like a command.
  const parts = text.split(program).map((part) =>
    part.replaceAll(suggested, (_, at: number) =>
      // Without `--`, npx would read the options that follow.
      part.startsWith('latchkey --', at) ? program.replace(/^npx --no /, 'npx --no -- ') : program,
    ),
  );
  return parts.join(program);
}

function npxFolderOf(launcher: Launcher): string | undefined {
  return 'script' in launcher ? npxFolder.exec(launcher.script)?.[1] : undefined;
}

/** The command that makes npx run the package in its folder again: by URL or file, or by name if it came from a registry. */
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
  // Even in quotes, a shell interprets the characters that this pattern excludes.
  if (!/^https?:\/\/[#%-[\]-_a-~]+$/.test(source)) return undefined;
  const { username, password } = URL.parse(source) ?? {};
  return username === '' && password === '' ? source : undefined;
}

/** The facts in a package.json of npx: where our package came from, and the name that npx was given for it. */
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
