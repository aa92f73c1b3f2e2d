// The steps of `latchkey setup` that choose assistants, change their files and show the sign-in.
import { aborted } from '#clock/clock';
import { assistantFile, assistantNamed } from '#config/assistants';
import { setupCommand } from '#config/connection';
import { ConfigurationError, UsageError } from '#config/errors';
import type { Options } from '#config/options';
import type { AssistantView } from '#connections/accounts-service';
import type { Connections } from '#connections/connections';
import type { CommandInput } from './command.ts';
import type { CommandHost } from './command-host.ts';
import { listed } from './install.ts';

/** The result for one assistant. `problem`: why its file was not changed. */
export type Written = { assistant: string; title: string; file: string; note?: string } & (
  | { changed: boolean }
  | { problem: string }
);

/** The inputs of one run of setup. */
export type Run = {
  flags: CommandInput['flags'];
  options: Options;
  connections: Connections;
  host: CommandHost;
  /** Prints to standard output, or to standard error if standard output is for JSON. */
  print: (line: string) => void;
};

export const isChanged = (one: Written) => 'changed' in one && one.changed;

/** The command that continues a setup of `url`. */
export function setupCommandFor(url: string, flags: CommandInput['flags']): string {
  const [name] = flags.get('name') ?? [];
  return `${setupCommand(url)}${name === undefined ? '' : ` --name ${name}`}`;
}

export function asksForAssistants(
  flags: CommandInput['flags'],
  { interactive }: Pick<CommandHost, 'interactive'>,
): boolean {
  return interactive && !['assistant', 'yes', 'json'].some((flag) => flags.has(flag));
}

/** How setup shows a sign-in to `what`. With `--yes`, it fails with `remedy` if there is neither a browser nor a terminal. */
export function setupTerminal({ flags, host }: Run, what: string, remedy: string) {
  const [only = '', ...others] = flags.get('assistant') ?? [];
  return {
    assistant: others.length === 0 ? assistantNamed(only)?.title : undefined,
    next: asksForAssistants(flags, host)
      ? 'Go back to the terminal to choose your assistants.'
      : 'Go back to the terminal.',
    openBrowser: async (page: URL): Promise<boolean> => {
      const isOpen = await host.openBrowser(page);
      if (isOpen || host.interactive || !flags.has('yes')) return isOpen;
      throw new UsageError(
        `${what} requires a sign-in, but there is neither a browser nor a terminal here`,
        remedy,
      );
    },
  };
}

/** The connections that assistants are chosen for, the new ones among them, and the command that asks again. */
export type Chosen = { names: readonly string[]; added: readonly string[]; again: string };

/** Returns the ids of the assistants to install into: as `--assistant` names them, as the person chooses, or all found. */
export async function choose(
  { names, added, again }: Chosen,
  {
    flags,
    connections,
    host,
  }: Pick<Run, 'flags'> & {
    connections: Pick<Connections, 'assistants'>;
    host: Pick<CommandHost, 'interactive' | 'warn' | 'stop' | 'lines'>;
  },
): Promise<readonly string[]> {
  const named = flags.get('assistant');
  if (named) return [...new Set(named)];
  const views = await connections.assistants();
  const found = views.filter((view) => view.found).map(({ id }) => id);
  if (found.length === 0) host.warn('found no assistants that Latchkey can set up');
  if (!asksForAssistants(flags, host)) return found;
  for (const line of choiceLines(names, views)) host.warn(line);
  const stopped = aborted(host.stop()).then(() => undefined);
  const lines = host.lines()[Symbol.asyncIterator]();
  const byDefault = found.length > 0 ? 'for those marked with *' : 'for none';
  for (;;) {
    host.warn(`Select assistants: enter numbers, all or none, or press Enter ${byDefault}:`);
    const line = await Promise.race([lines.next(), stopped]);
    if (line === undefined || line.done) throw cancelled(added, again);
    const chosen = chosenAssistants(line.value, views);
    if (chosen) return chosen;
    host.warn(`enter numbers from 1 to ${views.length}, for example: 1 3`);
  }
}

function cancelled(added: readonly string[], again: string): UsageError {
  if (added.length === 0) return new UsageError('cancelled; nothing changed', '');
  const were = added.length === 1 ? 'was' : 'were';
  return new UsageError(
    `cancelled; ${listed(added)} ${were} added, but to no assistant`,
    `run ${again} again to choose assistants`,
  );
}

/** The next step for connections that were installed in no assistant. */
export function chooseLaterLine(
  { names, again }: Omit<Chosen, 'added'>,
  { flags, host }: Pick<Run, 'flags'> & { host: Pick<CommandHost, 'interactive'> },
): string {
  if (asksForAssistants(flags, host)) return `next: run ${again} again to choose assistants`;
  const [first, ...others] = names;
  const each = others.length === 0 ? '' : `, and the same for ${listed(others)}`;
  return `next: latchkey install ASSISTANT ${first}${each}`;
}

/** The line for `warn` that shows how to type other commands if npx runs this program; `undefined` if it is installed. */
export function otherCommandsLine({ program }: Pick<CommandHost, 'program'>): string | undefined {
  return program === 'latchkey' ? undefined : 'other commands: latchkey status';
}

/** The last lines of the output: how to run other commands, here and in a new terminal. */
export function lastLines(
  { secretStore }: Pick<Run['options'], 'secretStore'>,
  host: Pick<CommandHost, 'program' | 'env'>,
): string[] {
  const others = otherCommandsLine(host);
  const isSetHere = secretStore === 'file' && host.env['LATCHKEY_SECRET_STORE'] !== undefined;
  return [
    ...(others === undefined ? [] : [others]),
    ...(isSetHere
      ? [
          "note: new terminals need LATCHKEY_SECRET_STORE and LATCHKEY_SECRET_STORE_KEY_FILE, too; set them in your shell's profile",
        ]
      : []),
  ];
}

type Offered = Pick<AssistantView, 'id' | 'title' | 'found' | 'starts'>;

/** The list that the person chooses from. */
export function choiceLines(names: readonly string[], offered: readonly Offered[]): string[] {
  const width = Math.max(...offered.map(({ title }) => title.length));
  return [
    'Assistants:',
    ...offered.map(({ title, found, starts }, at) => {
      const starting = names.every((name) => starts.includes(name));
      const what = names.length === 1 ? names[0] : 'all of them';
      const state = starting ? `already starts ${what}` : found ? '' : 'not found';
      return `${found ? '*' : ' '} ${at + 1}  ${title.padEnd(width)}  ${state}`.trimEnd();
    }),
  ];
}

/**
 * The ids that `answer` chooses: numbers, `all` or `none`. An empty answer chooses those that were found. `undefined` for any other answer.
 */
export function chosenAssistants(
  answer: string,
  offered: readonly Offered[],
): string[] | undefined {
  const words = answer
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  const [only] = words.length === 1 ? words : [];
  if (words.length === 0) return offered.filter(({ found }) => found).map(({ id }) => id);
  if (only === 'all') return offered.map(({ id }) => id);
  if (only === 'none') return [];
  const chosen = words.map((word) =>
    /^\d+$/.test(word) ? offered[Number(word) - 1]?.id : undefined,
  );
  return chosen.includes(undefined)
    ? undefined
    : [...new Set(chosen.filter((id) => id !== undefined))];
}

/** Adds a connection to an assistant. Returns an expected failure as a `problem`, so that other assistants still get it. */
export async function install(
  name: string,
  assistant: string,
  { connections, host }: Run,
): Promise<Written> {
  const { title, file } = assistantFile(assistant, undefined, host);
  try {
    const { changed, note } = await connections.install(assistant, name);
    return { assistant, title, file, changed, ...(note !== undefined && { note }) };
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof ConfigurationError)) throw error;
    return { assistant, title, file, problem: error.message };
  }
}

export function report(one: Written, name: string, { print, host }: Run): void {
  const { title, file, assistant } = one;
  if ('changed' in one)
    return print(
      one.changed
        ? `added ${name} to ${title}: ${file}`
        : `${name} was already in ${title}: ${file}`,
    );
  host.warn(`latchkey: ${title} was not changed: ${one.problem}`);
  host.warn(`hint: fix the problem, then run latchkey install ${assistant} ${name}`);
}
