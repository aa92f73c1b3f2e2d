// An assistant or a service does not inherit the network settings of the shell that a command runs in. The entry that the command
// writes contains Latchkey's own settings, without secrets. For each other setting, the command prints a note.
import { UsageError } from '#config/errors';
import { containsUser } from '#config/launch-entry';
import type { Options } from '#config/options';
import { proxyRoute, type ProxyRoute } from '#transport/company-proxy';
import { HttpError } from '#transport/http-error';
import type { CommandHost } from './command-host.ts';

/**
 * Checks the certificates that an entry will name, because an assistant shows only that a server failed to start.
 *
 * @throws {UsageError}
 */
export async function checkCertificates(
  options: Options,
  { env }: Pick<CommandHost, 'env'>,
): Promise<void> {
  const { caFile, clientCertificateFile } = options;
  if (caFile === undefined && clientCertificateFile === undefined) return;
  const { trust } = await import('#transport/tls');
  const clientKeyPassphraseSecret = env['LATCHKEY_CLIENT_KEY_PASSPHRASE'] ?? '';
  try {
    trust({ ...options, env, clientKeyPassphraseSecret }, false);
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    throw new UsageError(error.message, error.remedy, { cause: error });
  }
}

/**
 * Notes about the settings of this shell that the connections to `urls` use, but that are not in the written entries. `starter`
 * starts Latchkey from now on.
 */
export function missingNetwork(
  urls: readonly string[],
  { proxy, caFile, clientKeyFile }: Options,
  { env }: Pick<CommandHost, 'env'>,
  starter: 'your assistants' | 'the service' = 'your assistants',
): string[] {
  if (urls.length === 0) return [];
  const notes: string[] = [];
  const secret = (name: string) =>
    notes.push(
      `${name} contains a password, so it was not written to any file: set it in the environment of ${starter}`,
    );
  const setting = (name: string, option: string) =>
    notes.push(
      `${starter} may not inherit ${name}: to pass it on, run the command again with ${option}`,
    );

  if (proxy !== undefined && containsUser(proxy)) secret('LATCHKEY_PROXY');
  const route = proxy === undefined ? usedProxy(urls, env) : undefined;
  if (route && containsUser(route.secretUrl.href)) secret(route.setting);
  else if (route) setting(route.setting, `--proxy ${route.origin}`);
  if (clientKeyFile !== undefined && env['LATCHKEY_CLIENT_KEY_PASSPHRASE'])
    secret('LATCHKEY_CLIENT_KEY_PASSPHRASE');
  const authorities = env['NODE_EXTRA_CA_CERTS'];
  const isSecure = urls.some((url) => url.startsWith('https:'));
  if (isSecure && authorities && caFile === undefined)
    setting('NODE_EXTRA_CA_CERTS', `--ca-file ${authorities}`);
  return notes;
}

/** The proxy that the environment names for the first of the `urls` that needs a proxy. */
function usedProxy(urls: readonly string[], env: CommandHost['env']): ProxyRoute | undefined {
  try {
    return urls
      .map((url) => proxyRoute(new URL(url), { env }))
      .find((route) => route !== undefined);
  } catch (error) {
    // The connection itself reports a setting that is not the URL of a proxy.
    if (error instanceof HttpError) return undefined;
    throw error;
  }
}
