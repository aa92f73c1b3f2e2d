import type { Options } from '#config/options';
import { userFiles } from '#config/user-files';
import { isClientSecretAccount } from './configured-client.ts';
import { neededAccounts } from './needed-accounts.ts';
import type { AccountsHost } from './accounts-host.ts';

/** Whether a connection leads to an account of the keychain; `unknown`: a file that may cannot be read. */
export type AccountUse = 'needed' | 'free' | 'unknown';

/**
 * What the connections of these files, and those that assistants' own files describe, need of the
 * keychain. The secret of a client is one for all of them, and where any cannot be read, nobody knows of it;
 * any other account is a connection's of the file that names it.
 */
export async function accountUse(
  files: readonly string[],
  options: Options,
  host: AccountsHost,
): Promise<(account: string) => AccountUse> {
  const everywhere = [...new Set([...files, ...userFiles(host)])];
  const all = await neededAccounts(everywhere, options, host);
  const own = all ?? (await neededAccounts(files, options, host));
  return (account) => {
    const needed = isClientSecretAccount(account) ? all : own;
    if (!needed) return 'unknown';
    return needed.has(account) ? 'needed' : 'free';
  };
}
