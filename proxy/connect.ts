import type { Writable } from 'node:stream';
import { bridge } from '#bridge/bridge';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { explain } from '#errors';
import { jsonLinesLog } from '#log/log';
import { openCredential, type CredentialPorts } from './open-credential.ts';
import { openUpstream } from './open-upstream.ts';

export type ConnectPorts = CredentialPorts & {
  input: AsyncIterable<Buffer>;
  output: Writable;
  /** Takes one line of the log. */
  writeLog: (line: string) => void;
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
  const credential = await openCredential(connection, options, ports, log);
  await bridge({
    input,
    output,
    upstream: openUpstream(connection, credential, options, ports, log),
    clock,
    log,
    maxMessageBytes,
    explain: (error) => explain(error, connection),
    stop,
  });
}
