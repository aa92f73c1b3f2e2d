import { parseArgs } from 'node:util';

import { nearest } from 'latchkey-mcp/suggest';
import { variableOf } from './option.ts';
import { type Option } from '#model/option';
import { UsageError } from './usage-error.ts';

/**
 * Parses a command's arguments. Missing options are read from the environment; for repeatable options the variable's
 * values are separated by commas or whitespace.
 *
 * @throws {UsageError} that names the argument; its hint is `help`, unless there is a more specific one
 */
export function readOptions(
  options: readonly Option[],
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  help?: string,
) {
  const { values, positionals } = parse(options, argv, help);
  const optionOf = (name: string): Option => {
    const option = options.find((candidate) => candidate.name === name);
    if (!option) throw new TypeError(`--${name} is not an option of this command`);
    return option;
  };
  const chosen = (name: string): string[] | undefined => {
    const option = optionOf(name);
    const value = values[name];
    if (value !== undefined) return [value].flat().map(String);
    const variable = env[variableOf(option)];
    if (variable === undefined || variable === '') return undefined;
    return option.repeated ? variable.split(/[\s,]+/).filter(Boolean) : [variable];
  };
  const given = (name: string): string[] => {
    const { fallback } = optionOf(name);
    return chosen(name) ?? (fallback === undefined ? [] : [fallback]);
  };
  const missing = options.find((option) => option.required && !given(option.name).some(Boolean));
  if (missing) throw new UsageError(`--${missing.name} ${missing.value ?? ''} is missing`, help);
  return {
    positionals,
    /** The value of an option: from the command line, otherwise from its environment variable, otherwise its default. */
    text: (name: string) => given(name)[0],
    /** The value of an option that is required or has a default. */
    must: (name: string) => given(name)[0] ?? '',
    list: given,
    /** Whether the option or its variable was set. */
    isGiven: (name: string) => chosen(name) !== undefined,
    flag: (name: string) => ['true', '1', 'yes'].includes(given(name)[0] ?? 'false'),
  };
}

export type Input = ReturnType<typeof readOptions>;

/**
 * Finds environment variables that nothing reads, and whose names resemble the variable of an option. Other variables with our prefix
 * may belong to the proxy.
 */
export function misspeltVariables(
  options: readonly Option[],
  env: Readonly<Record<string, string | undefined>>,
): { readonly variable: string; readonly meant: string }[] {
  const prefix = variableOf({ name: '', doc: '' });
  const known = options.map((option) => variableOf(option).slice(prefix.length));
  return Object.keys(env).flatMap((variable) => {
    const word = variable.slice(prefix.length);
    if (!variable.startsWith(prefix) || known.includes(word)) return [];
    const meant = nearest(word, known);
    return meant === undefined ? [] : [{ variable, meant: prefix + meant }];
  });
}

function parse(options: readonly Option[], argv: readonly string[], help: string | undefined) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: Object.fromEntries(
        options.map(({ name, value, repeated = false }) => [
          name,
          { type: value === undefined ? 'boolean' : 'string', multiple: repeated } as const,
        ]),
      ),
    });
  } catch (error) {
    // Node's message goes on with advice. We use only the advice for a value that begins with a dash, in our own words.
    const [line = '', ...more] = (error instanceof Error ? error.message : String(error)).split(
      /\. |\.?\n/,
    );
    const dashed = more.find((hint) => hint.startsWith('To specify an option argument'));
    const [, named = ''] = /^Option '(--[^' ]+)/.exec(line) ?? [];
    const value = argv[argv.indexOf(named) + 1] ?? '';
    if (dashed !== undefined) {
      const { value: placeholder = '' } = options.find(({ name }) => `--${name}` === named) ?? {};
      const isNumber = /^(?:DAYS|COUNT|SECONDS|MINUTES|HOURS|SIZE|PORT)\b/.test(placeholder);
      if (isNumber && /^-\d/.test(value))
        throw new UsageError(`${named} '${value}' is negative`, help);
      const why = `${named} has no value, or one that begins with a dash`;
      throw new UsageError(why, `write such a value after an equals sign: ${named}=-x`);
    }
    const [, valueless] = /^Option '(?:-\w, )?--(\S+) <value>' argument missing/.exec(line) ?? [];
    const { value: wanted } = options.find(({ name }) => name === valueless) ?? {};
    if (wanted !== undefined) throw new UsageError(`--${valueless} ${wanted} has no value`, help);
    const [, unknown = ''] = /^Unknown option '--([^']+)'/.exec(line) ?? [];
    const known = [...options.map(({ name }) => name), 'help'];
    const meant = nearest(unknown, known);
    const hint = meant === undefined ? help : `did you mean --${meant}?`;
    throw new UsageError(line.charAt(0).toLowerCase() + line.slice(1), hint);
  }
}
