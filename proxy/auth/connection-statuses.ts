import { ConfigurationError } from '#config/configuration-error';
import type { Connection } from '#config/connection';
import type { Clock } from '#clock/clock';
import type { TokenVault } from './token-vault.ts';
import { accountStatus, type AccountStatus } from './account-status.ts';

export type StatusPorts = {
  read: (name: string) => Promise<Connection>;
  vaultOf: (connection: Connection) => Promise<TokenVault | undefined>;
  /** Whether the secrets that the configuration leaves to the keychain are there. */
  complete: (connection: Connection) => Promise<boolean>;
  clock: Clock;
  /** Why a connection cannot be looked at, where the others are to be listed all the same. */
  excuse?: (error: unknown) => string | undefined;
};

export type ConnectionStatuses = {
  statuses: { status: AccountStatus; connection: Connection; broken?: string }[];
  problems: { name: string; problem: string }[];
};

/**
 * How connections stand, read from this machine alone. Of several `names` one that cannot be read is a
 * problem; `urls` are those that no file names, but somebody signed in to.
 *
 * @throws {ConfigurationError} when the `only` name cannot be read
 */
export async function connectionStatuses(
  names: readonly string[],
  urls: readonly string[],
  only: boolean,
  { read, vaultOf, complete, clock, excuse }: StatusPorts,
): Promise<ConnectionStatuses> {
  const found: ConnectionStatuses = { statuses: [], problems: [] };
  const listed = new Set<string>();
  const list = async (name: string, again: boolean) => {
    const connection = await read(name);
    const vault = await vaultOf(connection);
    if (!again && vault && listed.has(vault.account)) return;
    if (vault) listed.add(vault.account);
    try {
      const whole = await complete(connection);
      const status = await accountStatus(connection, vault, clock.now(), whole);
      found.statuses.push({ status, connection });
    } catch (error) {
      const broken = excuse?.(error);
      if (broken === undefined) throw error;
      const status = await accountStatus(connection, undefined, clock.now());
      found.statuses.push({ status, connection, broken });
    }
  };
  for (const name of names) {
    try {
      await list(name, true);
    } catch (error) {
      if (!(error instanceof ConfigurationError) || only) throw error;
      const [first] = error.problems;
      // An entry that starts another program is none of ours.
      if (first?.problem.startsWith('starts another program')) continue;
      found.problems.push({ name, problem: error.message });
    }
  }
  // Whatever a configured connection stands for too has been listed by its name.
  for (const url of urls) await list(url, false);
  return found;
}
