import type { Imports } from '#auth/accounts-door';
import type { OwnMachine } from '#auth/own-machine';
import type { Options } from './options.ts';
import { importPlan } from './import-plan.ts';

/** What can be taken over from assistants' files, of all of them or of one. */
export async function importableEntries(
  assistant: string | undefined,
  options: Options,
  machine: OwnMachine,
): Promise<Imports> {
  const { files, problems } = await importPlan(assistant, options, machine);
  const entries = files.flatMap(({ file, steps }) =>
    steps.map(({ entry, connection: { name, url }, moved, remoteHash }) => ({
      file,
      entry: entry.key,
      name,
      url,
      moved,
      fromMcpRemote: remoteHash !== undefined,
    })),
  );
  return { entries, problems };
}
