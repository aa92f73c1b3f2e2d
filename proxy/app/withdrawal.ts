// Loaded when a running proxy has lost its sign-in: the reason may be that its server was withdrawn.
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { takeOutIfWithdrawn, withdrawnWords } from '#connections/withdrawn-servers';
import type { Host } from '#host';
import type { Log } from '#log/log';
import { openHost } from './open-host.ts';

/**
 * Removes the entries of a connection's server if it was withdrawn, and returns the message for the person. Logs each entry that
 * was removed, and each problem.
 */
export async function withdrawnNotice(
  { url }: Connection,
  options: Options,
  host: Host & { readonly stop: AbortSignal },
  log: Log,
): Promise<string | undefined> {
  const { config: _, ...own } = options;
  const withdrawn = await takeOutIfWithdrawn(
    url,
    own,
    openHost(host, () => host.stop),
  );
  if (!withdrawn) return undefined;
  const notice = withdrawnWords(withdrawn);
  for (const { file, backup } of withdrawn.removed)
    log.warn('entry of a withdrawn server removed', { file, backup });
  for (const reason of withdrawn.problems)
    log.warn('entry of a withdrawn server not removed', { reason });
  return notice;
}
