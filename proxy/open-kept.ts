import { join } from 'node:path';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { Options } from '#config/options';

/** Whose state directory it is. */
export type KeptPlace = Parameters<typeof defaultStateDirectory>[0];

/** Where the answers of servers are kept for starts without them. */
export function keptDirectory(options: Options, place: KeptPlace): string {
  return join(options.stateDir ?? defaultStateDirectory(place), 'kept');
}

/** Where it is kept what kind of server each is. */
export function serversDirectory(options: Options, place: KeptPlace): string {
  return join(options.stateDir ?? defaultStateDirectory(place), 'servers');
}

/** Forgets what the server at `url` answered to `account`, and which kind of server it is. */
export async function forgetKept(
  { url, account }: { url: string; account: string },
  options: Options,
  place: KeptPlace,
): Promise<void> {
  const [{ fileAnswers }, { rememberedServer }] = await Promise.all([
    import('#pipeline/file-answers'),
    import('#pipeline/remembered-server'),
  ]);
  const answers = fileAnswers(keptDirectory(options, place), { url, account });
  const server = rememberedServer(serversDirectory(options, place), url);
  await answers.forget();
  await server.remember(undefined);
}
