import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { credentialAccount } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { secretMarks } from './secret-marks.ts';
import { secretTrial } from './secret-trial.ts';

/** Puts the secret back that the one on trial replaced; `false` when there is none. */
export async function undoRotation(
  connection: Connection,
  options: Options,
  host: AccountsHost,
): Promise<boolean> {
  const account = credentialAccount(connection);
  if (account === undefined) return false;
  const store = await host.store(options);
  return host.exclusively(`secret ${account}`, options, async () => {
    const undone = await secretTrial(account, store).undo();
    await secretMarks(account, options, host).settled();
    return undone;
  });
}
