import type { Imports } from '#auth/accounts-service';
import type { AccountsHost } from '#auth/accounts-host';
import type { Options } from './options.ts';
import { importPlan } from './import-plan.ts';

/** What can be taken over from assistants' files, of all of them or of one. */
export async function importableEntries(
  assistant: string | undefined,
  options: Options,
  host: AccountsHost,
): Promise<Imports> {
  const { files, problems } = await importPlan(assistant, options, host);
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
