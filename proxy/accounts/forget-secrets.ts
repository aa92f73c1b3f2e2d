import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { dropSecrets } from './kept-secrets.ts';
import type { OwnMachine } from './own-machine.ts';
import { sharesClient } from './registry.ts';
import { signsIn } from './signs-in.ts';

/**
 * Forgets the secrets of a connection that our file no longer has, and the tokens that they brought,
 * which the server is not told of. What the `successor` of the same name keeps in the same place stays.
 */
export async function forgetSecrets(
  connection: Connection,
  options: Options,
  machine: OwnMachine,
  successor?: Connection,
): Promise<void> {
  const shared = await sharesClient(connection, options, machine);
  const store = await machine.store(options);
  await dropSecrets(connection, { shared, ...(successor && { successor }) }, store);
  if (!signsIn(connection)) return;
  const { vault, lock } = await machine.account(connection, options);
  if (successor && signsIn(successor)) {
    const { vault: kept } = await machine.account(successor, options);
    if (kept.account === vault.account) return;
  }
  await lock.hold(vault.account, async () => vault.clear());
}
