import type { Writable } from 'node:stream';
import { bridge } from '#pipeline/bridge';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Host } from '#host';
import { explain, troubleOf } from '#errors';
import { openPipeline } from '#pipeline/pipeline';
import { jsonLinesLog } from '#log/log';
import { openSecretStore } from './open-account.ts';
import { openPresence } from './open-presence.ts';
import { openCredential } from './open-credential.ts';

export type ConnectPorts = Host & {
  input: AsyncIterable<Buffer>;
  output: Writable;
  stop: AbortSignal;
};

/** Carries MCP between an assistant and `connection`, until the assistant hangs up or `stop` aborts. */
export async function connect(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
): Promise<void> {
  const { input, output, clock, stop } = ports;
  const { maxMessageBytes } = options;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  const identity = await openCredential(connection, options, ports, log);
  const { credential, account, signInService } = identity;
  const worked = async () => settled(connection, options, ports);
  const presence = openPresence(connection, options, { ...identity, worked }, ports, log);
  const explained = (error: unknown) => explain(error, connection);
  const upstream = openPipeline(connection, options, {
    host: ports,
    log,
    credential,
    account,
    signInService,
    troubleOf: (error) => troubleOf(error, options.signIn),
    explain: (error) => explained(error).failure.message,
    status: presence,
    observe: (cache) =>
      presence.step(async (request) =>
        request === 'sign_in_done' ? cache.signedInElsewhere() : cache.tryNow(),
      ),
  });
  try {
    await bridge({
      input,
      output,
      upstream,
      clock,
      log,
      maxMessageBytes,
      explain: explained,
      stop,
    });
  } finally {
    await presence.close();
  }
}

/** A secret that was replaced before this process began has proven itself. */
async function settled(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
): Promise<void> {
  const { settleRotation } = await import('#auth/secret-trial');
  const store = async () => openSecretStore(options, ports);
  await settleRotation(connection, performance.timeOrigin, options, ports, store);
}
