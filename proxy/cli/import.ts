import { signInRequired, type ImportFile, type ImportStep } from '#connections/import-plan';
import { ConfigurationError } from '#config/errors';
import type { Command, CommandInput } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';
import { checkCertificates } from './inherited-network.ts';
import { listed } from './install.ts';

/** `latchkey import`. */
export const importCommand: Command = {
  name: 'import',
  operands: '[FILE|ASSISTANT]',
  summary: 'move secrets from assistants’ files to the keychain, and replace mcp-remote',
  about: `Moves the secrets in the file of one assistant, or of all, to the keychain, and writes "keychain" in their place.
Entries that start mcp-remote, or that an assistant connects to itself, then start latchkey. Sign in again for
entries that used mcp-remote: its sign-in cannot be moved. On a terminal, the command shows its plan and asks for
confirmation. It keeps a copy of the file next to it, without the moved secrets, until you delete the copy.`,
  flags: {
    'dry-run': { doc: 'show the plan without changing anything' },
    yes: { doc: 'do not ask for confirmation' },
    json: { doc: 'print one JSON object; do not ask for confirmation' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey import --dry-run', 'latchkey import cursor', 'latchkey import ./mcp.json'],
  async run(input, host) {
    return (await importEntries(input, host)) ? 0 : 1;
  },
};

type Done = { file: string; entry: string; name: string; url: string; moved: string[] };

/** Runs `latchkey import`. Resolves to `false` if something could not be imported. */
async function importEntries(input: CommandInput, host: CommandHost): Promise<boolean> {
  const { flags, operands } = input;
  const json = flags.has('json');
  await checkCertificates(host.options(input.options), host);
  const connections = connectionsOf(host, input.options);
  const { files, problems, kept } = await connections.importPlan(operands[0]);
  let steps = files.flatMap((file) => file.steps.map((step) => summaryOf(file, step)));
  if (!json) for (const step of steps) host.print(lineOf(step));
  if (!json && steps.length === 0) host.print('nothing to import');
  const dry = flags.has('dry-run');
  const backups: string[] = [];
  const signIns: string[] = [];
  if (!dry && steps.length > 0 && (flags.has('yes') || json || (await agreed(host))))
    for (const file of files) {
      try {
        const backup = await connections.importFile(file);
        if (backup !== undefined) backups.push(backup);
        signIns.push(...signInRequired(file.steps));
      } catch (error) {
        // The other files are imported nevertheless.
        if (!(error instanceof ConfigurationError)) throw error;
        problems.push({ name: file.file, problem: error.message });
        steps = steps.filter((step) => step.file !== file.file);
      }
    }
  if (json)
    host.print(
      JSON.stringify({
        dry_run: dry,
        imported: steps,
        sign_in_required: signIns,
        backups,
        problems,
        kept,
      }),
    );
  for (const backup of json ? [] : backups)
    host.warn(`backup of the file, without the moved secrets: ${backup}`);
  for (const name of json ? [] : signIns) host.warn(`next: latchkey login ${name}`);
  for (const { name, variables } of json ? [] : kept)
    host.warn(
      `note: ${name} was not changed: it starts another program, so ${listed(variables)} ${variables.length === 1 ? 'stays' : 'stay'} in the file`,
    );
  for (const { name, problem } of json ? [] : problems)
    for (const line of `${name} was not changed: ${problem}`.split('\n'))
      host.warn(`latchkey: ${line}`);
  return problems.length === 0;
}

function summaryOf({ file }: ImportFile, { entry, connection, moved }: ImportStep): Done {
  return { file, entry: entry.key, name: connection.name, url: connection.url, moved };
}

function lineOf({ file, entry, name, url, moved }: Done): string {
  const what = moved.length > 0 ? `${moved.join(', ')} to the keychain` : 'no secrets to move';
  return `${file}: ${entry} becomes ${name} (${url}): ${what}`;
}

/** Without a terminal, starting the command is consent. */
async function agreed(host: CommandHost): Promise<boolean> {
  if (!host.interactive) return true;
  host.warn('Continue? [y/N]');
  for await (const line of host.lines()) return /^y(es)?$/i.test(line.trim());
  return false;
}
