import { join } from 'node:path';
import { defaultStateDirectory } from '#config/user-files';
import type { UserHost } from '#host';
import type { Options } from '#config/options';

/** Where the answers of servers are kept for starts without them. */
export function keptDirectory(options: Options, host: UserHost): string {
  return join(options.stateDir ?? defaultStateDirectory(host), 'kept');
}

/** Where it is kept what kind of server each is. */
export function serversDirectory(options: Options, host: UserHost): string {
  return join(options.stateDir ?? defaultStateDirectory(host), 'servers');
}

/** Forgets what the server at `url` answered to `account`, and which kind of server it is. */
export async function forgetKept(
  { url, account }: { url: string; account: string },
  options: Options,
  host: UserHost,
): Promise<void> {
  const [{ fileAnswers }, { rememberedServer }] = await Promise.all([
    import('#pipeline/cached-answers'),
    import('#pipeline/detect-server'),
  ]);
  const answers = fileAnswers(keptDirectory(options, host), { url, account });
  const server = rememberedServer(serversDirectory(options, host), url);
  await answers.forget();
  await server.remember(undefined);
}
