import { accountStatus, type AccountStatus } from '#accounts/account-status';
import type { Clock } from '#clock/clock';
import { ConfigurationError } from '#config/configuration-error';
import type { Connection } from '#config/connection';
import { connectionNames } from '#config/connection-names';
import type { ReadText } from '#config/find-entry';
import type { TokenVault } from '#token/token-vault';
import { statusJson, statusLines } from './status-lines.ts';

export type StatusInput = {
  /** All that are configured unless given. */
  target: string | undefined;
  json: boolean;
  files: readonly string[];
  /** URLs that no file names, but somebody signed in to. */
  urls: readonly string[];
};

export type StatusPorts = {
  read: (name: string) => Promise<Connection>;
  vaultOf: (connection: Connection) => Promise<TokenVault | undefined>;
  /** Whether the secrets that the configuration leaves to the keychain are there. */
  complete: (connection: Connection) => Promise<boolean>;
  readText: ReadText;
  clock: Clock;
};

/** `latchkey status`: how connections stand, read from this machine alone. */
export async function status(
  { target, json, files, urls }: StatusInput,
  { read, vaultOf, complete, readText, clock }: StatusPorts,
): Promise<string> {
  const names = target === undefined ? await connectionNames(files, readText) : [target];
  const statuses: AccountStatus[] = [];
  const problems: { name: string; problem: string }[] = [];
  const listed = new Set<string>();
  const list = async (name: string, again: boolean) => {
    const connection = await read(name);
    const vault = await vaultOf(connection);
    if (!again && vault && listed.has(vault.account)) return;
    if (vault) listed.add(vault.account);
    const whole = await complete(connection);
    statuses.push(await accountStatus(connection, vault, clock.now(), whole));
  };
  for (const name of names) {
    try {
      await list(name, true);
    } catch (error) {
      if (!(error instanceof ConfigurationError) || target !== undefined) throw error;
      const [first] = error.problems;
      // An entry that starts another program is none of ours.
      if (first?.problem.startsWith('starts another program')) continue;
      problems.push({ name, problem: error.message });
    }
  }
  // Whatever a configured connection stands for too has been listed by its name.
  if (target === undefined) for (const url of urls) await list(url, false);
  return json ? statusJson(statuses, problems) : statusLines(statuses, problems, clock.now());
}
