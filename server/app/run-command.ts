import { resolve as absolute } from 'node:path';

import { commandHelpText } from '#cli/help';
import { checkPositionals, findCommand } from '#cli/find-command';
import { readHidden, readPassword, type Terminal } from '#cli/read-hidden';
import type { Clock } from '#model/clock';
import { databasePlace } from '#config/database-place';
import {
  baseUrl,
  databaseUrl,
  dataDir,
  endpointBase,
  knownBaseUrl,
  masterKeyFile,
  outboundHost,
  variableOf,
} from '#config/option';
import { readOptions } from '#config/read-options';
import { CommandError } from '#config/usage-error';
import type { PasswordHashing } from '#accounts/passwords';
import type { CommandPorts } from '#admin/command';
import { acceptsConnection } from '#outbound/accepts-connection';
import { commandSetup } from './command-setup.ts';
import { databaseFile, isInUse, stageBackup } from './stage-backup.ts';
import { openPostgresStores, openStores, type PostgresPlace, type Stores } from './stores.ts';
import { notedBaseUrl } from '#config/base-url';

/** The parts of its process that an administrative command uses. */
export interface CommandHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly hashing: Pick<PasswordHashing, 'hash'>;
  /** Where secrets are typed or piped in. */
  readonly terminal: Terminal;
  readonly out: (line: string) => void;
  /** Writes a line to stderr, so that a program that reads stdout does not get it. */
  readonly tell: (line: string) => void;
  readonly tryUrl: CommandPorts['tryUrl'];
  /** Makes the process end when the reader of stdout disconnects. */
  readonly endWithReader: () => void;
}

/**
 * Runs one administrative command, `key create …`, on the data folder that it names.
 *
 * @throws {UsageError} when it is typed wrong
 * @throws {CommandError} when it cannot be done
 */
export async function runCommand(argv: readonly string[], host: CommandHost): Promise<void> {
  const { env, clock, hashing, terminal, out, tell, tryUrl, endWithReader } = host;
  const { command, rest } = findCommand(argv);
  const common = 'runOnFolder' in command ? [] : [dataDir, databaseUrl];
  if (argv.some((word) => word === '--help' || word === '-h'))
    return commandHelpText(command, common).split('\n').forEach(out);
  const help = `latchkey-server ${command.words} --help`;
  const options = [...command.options, ...common];
  const read = (variables: CommandHost['env']) => readOptions(options, rest, variables, help);
  let input = read(env);
  checkPositionals(command, input.positionals);
  if ('runOnFolder' in command) {
    const readSecret = async (prompt: string, what: string) =>
      (await readHidden([prompt], what, terminal))[0] ?? '';
    return command.runOnFolder(input, {
      stage: stageBackup,
      isInUse,
      databaseFile,
      connects: acceptsConnection,
      clock,
      out,
      readSecret,
    });
  }
  const folder = absolute(input.must('data-dir'));
  const shared = databasePlace(input);
  const wantsBase = options.some(({ name }) => name === baseUrl.name);
  if (!shared && wantsBase && !input.isGiven(baseUrl.name)) {
    input = read({ ...env, [variableOf(baseUrl)]: notedBaseUrl(folder) });
  }
  const stores = shared
    ? await openShared(shared)
    : await openFolder(folder, {
        mayCreate: command.words === 'organization create' && input.isGiven('data-dir'),
        tell,
      });
  try {
    const place = {
      dataDir: folder,
      masterKeyFile: command.options.includes(masterKeyFile)
        ? input.text('master-key-file')
        : undefined,
      outboundHosts: command.options.includes(outboundHost) ? input.list('outbound-host') : [],
      baseUrl: [knownBaseUrl, endpointBase].some((one) => command.options.includes(one))
        ? input.text('base-url')
        : undefined,
    };
    const setup = await commandSetup(stores.db, place, clock);
    const ports = { stores: { ...stores, ...setup }, clock, out, tell, hashing, tryUrl };
    if (command.endsWithReader) endWithReader();
    await command.run(input, { ...ports, readPassword: () => readPassword(terminal) });
  } finally {
    await stores.close();
  }
}

async function openShared(place: Pick<PostgresPlace, 'url'>): Promise<Stores> {
  // Nodes check the standbys. A command need not.
  return openPostgresStores({ ...place, mayLoseWrites: true }, { failed: () => undefined });
}

/** @throws {CommandError} if there is no database in the folder, unless one may be created */
async function openFolder(
  folder: string,
  { mayCreate, tell }: { mayCreate: boolean; tell: CommandHost['tell'] },
): Promise<Stores> {
  const isNew = !isInUse(folder);
  // The server may use another data folder and would never see what is created in this one.
  if (isNew && !mayCreate) {
    throw new CommandError(
      `there is no database in ${folder}`,
      'set the data folder of the server with --data-dir or LATCHKEY_DATA_DIR; to create a new one: latchkey-server start, or organization create ORG --data-dir DIR',
    );
  }
  const stores = await openStores(folder);
  tell(isNew ? `created a new database in ${folder}` : `data folder: ${folder}`);
  return stores;
}
