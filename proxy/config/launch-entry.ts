import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import { lastingProgram } from './lasting-program.ts';

/** What starts this program, by absolute paths: Node and a script, or one executable. */
export type Launcher = { node: string; script: string } | { program: string };

/** An assistant's entry that starts a program. */
export type LaunchEntry = {
  type?: 'stdio';
  command: string;
  args: string[];
  env?: Record<string, string>;
};

/** The object that the started Node reads; this one reads it in main alone. */
const nodesOwn = 'process';

/**
 * The entry that starts the proxy for the connection `name`. Several assistants tear arguments apart at
 * blanks, so there are none: a launcher whose path has one goes into the environment, which they leave
 * alone, as a URL.
 *
 * @throws {UsageError} when the program is where it will not be found tomorrow
 */
export function launchEntry(
  launcher: Launcher,
  name: string,
  { typed, env = {} }: { typed: boolean; env?: Readonly<Record<string, string>> },
): LaunchEntry {
  if ('program' in launcher)
    return {
      ...(typed && { type: 'stdio' }),
      command: lastingProgram(launcher.program),
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
      ? ['-e', `import(${nodesOwn}.env.LATCHKEY_LAUNCHER)`, 'latchkey', 'connect', name]
      : [script, 'connect', name],
    ...(Object.keys(all).length > 0 && { env: all }),
  };
}

/** Whether an entry of a configuration file starts this program, for the connection `name` if given. */
export function isLaunch(value: unknown, name?: string): boolean {
  if (typeof value !== 'object' || value === null || !('command' in value)) return false;
  const args = 'args' in value && Array.isArray(value.args) ? value.args : [];
  const words: string[] = [value.command, ...args].filter((word) => typeof word === 'string');
  return startsLatchkey(words) && (name === undefined || words.slice(1).includes(name));
}

/** `latchkey`, npx with the URL of our package, Node with the path of our launcher, or the app in its one file. */
export function startsLatchkey(words: readonly string[]): boolean {
  return words.some((word) =>
    /^latchkey((@[\w.-]+)?(\.(js|cmd|exe|ts))?|-\d[\w.+-]*\.tgz(\?.*)?|[\w.-]*\.appimage)$/i.test(
      basename(word.replaceAll('\\', '/')),
    ),
  );
}
