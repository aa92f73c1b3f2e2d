// The composition of `latchkey NAME`. Assistants start it many times a day, so all that it needs until its first answer is
// imported statically, and the rest on demand.
import type { Writable } from 'node:stream';
import { signsIn } from '#auth/account';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { defaultStateDirectory } from '#config/user-files';
import { explain, troubleOf } from '#errors';
import type { Host } from '#host';
import { jsonLinesLog, type Log } from '#log/log';
import { bridge } from '#pipeline/bridge';
import { openPipeline } from '#pipeline/pipeline';
import { publicStates } from '#status/proxy-status';
import { StatusReporter } from '#status/status-reporter';
import { programVersion } from '#version';
import { openCredential, type Identity } from './credential.ts';
import { openAccount, openSecretStore } from './open-account.ts';
import { openTracing } from './tracing.ts';

export type ConnectPorts = Host & {
  input: AsyncIterable<Buffer>;
  output: Writable;
  stop: AbortSignal;
};

/** Carries MCP between an assistant and `connection`, until the assistant disconnects or `stop` aborts. */
export async function connect(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
): Promise<void> {
  const { input, output, clock, stop } = ports;
  const { maxMessageBytes } = options;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  // `presence` is set when this is called: no sign-in begins before the first request, and `presence` observes that request.
  const assistant = () => presence.assistant();
  const withdrawn = async () => {
    const { withdrawnNotice } = await import('./withdrawal.ts');
    return withdrawnNotice(connection, options, ports, log);
  };
  const asked = { ...ports, assistant, withdrawn };
  const identity = await openCredential(connection, options, asked, log);
  const presence = openPresence(connection, options, identity, ports, log);
  const explained = (error: unknown) => explain(error, connection, ports.program);
  const tracing = await openTracing(ports.env, 'latchkey', log);
  const upstream = openPipeline(connection, options, {
    host: ports,
    log,
    tracing,
    credential: identity.credential,
    account: identity.account,
    signInService: identity.signInService,
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
    await Promise.all([presence.close(), tracing?.close()]);
  }
}

/** Reports the status of the proxy of `connection` to other programs of this user. */
function openPresence(
  connection: Connection,
  options: Options,
  identity: Identity,
  ports: ConnectPorts,
  log: Log,
): StatusReporter {
  const { clock, platform, pid } = ports;
  return new StatusReporter({
    connection,
    version: programVersion,
    stateDirectory: options.stateDir ?? defaultStateDirectory(ports),
    platform,
    pid,
    clock,
    log,
    signInService: identity.signInService,
    token: identity.token,
    async worked() {
      await identity.load?.();
      if (signsIn(connection)) {
        // An earlier check may have found that the person's account or key was missing.
        const { marks } = await openAccount(connection, options, ports);
        await marks.noteMissingAccount(undefined);
      }
      // If a secret was replaced before this process started, the new one is the one that has just worked.
      const { settleRotation } = await import('#connections/secret-trial');
      const store = async () => openSecretStore(options, ports);
      await settleRotation(connection, performance.timeOrigin, options, ports, store);
    },
    faultOf(error) {
      const reason = explain(error, connection, ports.program).failure.message;
      const trouble = troubleOf(error, 'auto');
      return { state: trouble === undefined ? 'trouble' : publicStates[trouble], reason };
    },
  });
}
