import { writeFile } from 'node:fs/promises';
import { ConfigurationError, UsageError } from '#config/errors';
import type { Options } from '#config/options';
import type { Finding } from '#status/checks';
import { connectionOptions, type Command } from './command.ts';
import type { CommandHost } from './command-host.ts';

/** `latchkey doctor NAME`. */
export const doctorCommand: Command = {
  name: 'doctor',
  operands: '[NAME|URL]',
  summary: 'find problems and show how to fix them',
  about: `Checks everything that a connection needs, or this computer and what all connections store on it. It runs all checks even if one fails; the exit
code is then 1. It opens no browser and calls no tool.`,
  flags: {
    json: { doc: 'print one JSON object: {"checks":[…]}' },
    bundle: { value: 'FILE', doc: 'write all results to a ZIP file, without secrets' },
  },
  options: connectionOptions,
  examples: ['latchkey doctor acme', 'latchkey doctor acme --bundle doctor.zip'],
  async run({ operands: [target], flags, options: given }, host) {
    const options = host.options(given);
    const [file] = flags.get('bundle') ?? [];
    const json = flags.has('json');
    if (target !== undefined) await refuseUnknownName(target, options, host);
    const { findings, notAsked, bundle } = await host.doctor(target, options, {
      progress: (name) => host.warn(`checking ${name} …`),
      found: (finding) => {
        for (const line of json ? [] : doctorLines(finding)) host.advise(line);
      },
    });
    if (json) host.print(JSON.stringify({ checks: findings }));
    else if (notAsked.length > 0)
      host.advise(`not checked: the servers of ${notAsked.join(', ')}; run latchkey doctor NAME`);
    if (file !== undefined) {
      await writeNew(file, await bundle());
      host.warn(`wrote ${file}; check its content before you send it to anyone`);
    }
    return findings.some(({ state }) => state === 'fail') ? 1 : 0;
  },
};

/**
 * Refuses a mistyped name, as other commands do. Every other problem of the configuration is a finding.
 *
 * @throws {ConfigurationError} if there is no connection of this name
 */
async function refuseUnknownName(
  target: string,
  options: Options,
  host: CommandHost,
): Promise<void> {
  await host.connection(target, options).catch((error: unknown) => {
    if (error instanceof ConfigurationError && error.isUnknownName) throw error;
  });
}

/** A finding for a person, with its remedy on a line of its own. */
function doctorLines({ check, state, what, hint }: Finding): string[] {
  const [first = '', ...more] = what.split('\n');
  const indent = ' '.repeat(21);
  const line = `${state.padEnd(5)} ${check.padEnd(14)} ${first}`;
  const rest = more.map((other) => `${indent}${other}`);
  return [line, ...rest, ...(hint ? [`${indent}hint: ${hint}`] : [])];
}

/**
 * Creates a file that only this user can read. Never replaces an existing file.
 *
 * @throws {UsageError}
 */
async function writeNew(path: string, content: Uint8Array): Promise<void> {
  await writeFile(path, content, { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    throw new UsageError(
      code === 'EEXIST' ? `${path} already exists` : `${path} cannot be written (${code})`,
      'choose another file with --bundle',
    );
  });
}
