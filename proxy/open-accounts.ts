import { AccountsError, type AccountsService, type AccountsFront } from '#auth/accounts-service';
import { systemClock } from '#clock/clock';
import { wakeWatch } from '#clock/wake-watch';
import { readOptions } from '#config/options';
import type { Finding } from '#status/checks';
import { words } from '#errors';
import { httpClient } from '#transport/http-client';
import { redact } from '#log/redact';
import { openAssistants } from './open-assistants.ts';
import { openConnections } from './open-connections.ts';
import { openHost } from './open-host.ts';

export type * from '#auth/accounts-service';
export type * from '#status/checks';
export type * from '#status/running-proxy';
export { AccountsError } from '#auth/accounts-service';
export type { Launcher } from '#config/launch-entry';
export { printable } from '#log/printable';
export { helperEnvironment } from '#config/options';
export { packagedLauncher } from '#config/launch-entry';

/**
 * Opens the accounts service for another front of this program. Nothing is read before
 * it is asked for, and nothing is held but the sockets of running proxies while somebody watches.
 *
 * @throws {AccountsError} when the options make no sense
 */
export function openAccounts(frontHost: AccountsFront): AccountsService {
  const { env, options: given = {}, ...front } = frontHost;
  const options = guardedNow(() => readOptions(given, env));
  const clientKeyPassphraseSecret = env['LATCHKEY_CLIENT_KEY_PASSPHRASE'] ?? '';
  const network = { ...options, env, clientKeyPassphraseSecret };
  const stop = new AbortController().signal;
  const watch = wakeWatch(
    () => Date.now(),
    () => performance.now(),
  );
  const host = openHost(
    {
      async openBrowser(url) {
        const browser = await import('#auth/open-browser');
        return browser.openBrowser(url, frontHost);
      },
      ...front,
      env,
      clock: systemClock(),
      http: httpClient(
        () => network,
        () => watch.wokeWithin(1),
      ),
      writeLog: () => undefined,
    },
    () => stop,
  );
  const connections = openConnections({ host, options });
  const assistants = openAssistants({ host, options, given });
  return {
    listConnections: guarded(connections.listConnections),
    watch: guardedChanges(connections.watch),
    probe: guarded(connections.probe),
    readPasted: guarded(connections.readPasted),
    add: guarded(connections.add),
    remove: guarded(connections.remove),
    signIn: guarded(connections.signIn),
    signOut: guarded(connections.signOut),
    reconnect: guarded(connections.reconnect),
    rotateKey: guarded(connections.rotateKey),
    rotateSecret: guarded(connections.rotateSecret),
    undoRotation: guarded(connections.undoRotation),
    reminders: guarded(connections.reminders),
    claimNotice: guarded(connections.claimNotice),
    assistants: guarded(assistants.assistants),
    install: guarded(assistants.install),
    uninstall: guarded(assistants.uninstall),
    importable: guarded(assistants.importable),
    import: guarded(assistants.import),
    doctor: guarded(async (name?: string, found: (finding: Finding) => void = () => undefined) => {
      const { openDoctor } = await import('./open-doctor.ts');
      const hears = { progress: () => undefined, found };
      const ports = { ...host, ...hears, stop };
      return (await openDoctor(name, options, network, ports)).findings;
    }),
  };
}

/** The same work, whose failures have words for a person; a bug goes on as it came. */
function guarded<Input extends unknown[], Output>(
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    try {
      return await work(...input);
    } catch (error) {
      throw inWords(error);
    }
  };
}

function guardedNow<Output>(work: () => Output): Output {
  try {
    return work();
  } catch (error) {
    throw inWords(error);
  }
}

function guardedChanges<Input extends unknown[], Output>(
  changes: (...input: Input) => AsyncIterable<Output>,
): (...input: Input) => AsyncGenerator<Output, void> {
  return async function* guardedOnes(...input) {
    try {
      yield* changes(...input);
    } catch (error) {
      throw inWords(error);
    }
  };
}

function inWords(error: unknown): AccountsError {
  if (error instanceof AccountsError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'usage';
  // What the system says of a file names the file and nothing that stands in it.
  if (error instanceof Error && 'syscall' in error && 'path' in error)
    return new AccountsError(code, error.message, 'look at the file and who may write it');
  const { message, hint } = words(error);
  return new AccountsError(code, redact(message), hint, { cause: error });
}
