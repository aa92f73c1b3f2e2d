import type { AccountsHost } from '#auth/accounts-host';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { words } from '#errors';
import { jsonLinesLog } from '#log/log';
import type { Check } from '#status/checks';
import { runDoctor, type DoctorProgress, type Examined } from '#status/doctor';
import { endpointCheck } from '#status/endpoint-check';
import type { NetworkSettings } from '#transport/http-client';
import { openCredential, type CredentialPorts } from './open-credential.ts';

export type DoctorHost = AccountsHost & CredentialPorts & DoctorProgress;

/** Runs the doctor on this host; without `target`, about the host alone. */
export async function openDoctor(
  target: string | undefined,
  options: Options,
  network: NetworkSettings,
  host: DoctorHost,
): Promise<Examined> {
  const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
  return runDoctor(target, options, {
    ...host,
    version: manifest.version,
    network,
    readText: (path) => host.readText(path),
    store: async () => host.store(options),
    account: async (connection) => host.account(connection, options),
    endpoint: (connection) => openEndpointCheck(connection, options, host),
    words,
  });
}

/** The handshake with the server of `connection`, for which no browser is opened. */
export function openEndpointCheck(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Check {
  const { maxMessageBytes } = options;
  const quiet = { ...options, signIn: 'never' as const };
  const silent = { ...host, openBrowser: () => Promise.resolve(false) };
  const log = jsonLinesLog('error', () => undefined);
  return endpointCheck(connection, {
    ...host,
    credential: async () => (await openCredential(connection, quiet, silent, log)).credential,
    maxMessageBytes,
    words: (error) => words(error, connection),
  });
}
