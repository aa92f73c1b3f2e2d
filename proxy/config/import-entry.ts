import type { Imported } from '#auth/accounts-service';
import type { AccountsHost } from '#auth/accounts-host';
import type { Options, OptionTexts } from './options.ts';
import { UsageError } from './usage-error.ts';
import { importFile } from './import-file.ts';
import { importPlan } from './import-plan.ts';
import { takeOverSignIn } from './take-over-sign-in.ts';

/**
 * Takes one entry of a file over, or all that can be.
 *
 * @throws {UsageError} when there is none of that name
 */
export async function importEntry(
  path: string,
  key: string | undefined,
  options: Options,
  given: OptionTexts,
  host: AccountsHost,
): Promise<Imported> {
  const { files, problems } = await importPlan(path, options, host);
  const signInTakenOver: string[] = [];
  const [found] = files;
  const steps = (found?.steps ?? []).filter(({ entry }) => key === undefined || entry.key === key);
  if (!found || steps.length === 0) {
    const problem = problems.find(({ name }) => name === key)?.problem;
    throw new UsageError(
      problem ?? `${path} has nothing of that name to take over`,
      'look at what can be imported',
    );
  }
  const backup = await importFile({ ...found, steps }, options, given, host);
  for (const { connection, remoteHash } of steps)
    if (await takeOverSignIn(connection, remoteHash, options, host))
      signInTakenOver.push(connection.name);
  return { file: found.file, ...(backup !== undefined && { backup }), signInTakenOver };
}
