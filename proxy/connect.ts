import type { Writable } from 'node:stream';
import { bridge } from '#bridge/bridge';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { explain, troubleOf } from '#errors';
import type { Message } from '#jsonrpc/message';
import { fileAnswers } from '#kept/file-answers';
import { keptUpstream } from '#kept/kept-upstream';
import { question } from '#kept/question';
import { jsonLinesLog } from '#log/log';
import { keptDirectory } from './open-account.ts';
import { openCredential, type CredentialPorts } from './open-credential.ts';
import { openToolFilter } from './open-tool-filter.ts';
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
  const { name, url } = connection;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  const { credential, account, door } = await openCredential(connection, options, ports, log);
  const explained = (error: unknown) => explain(error, connection);
  const answers = fileAnswers(keptDirectory(options, ports), { url, account });
  const hasStandIn = async (message: Message) =>
    message.method === 'initialize' &&
    (await answers.read(question(message, message))) !== undefined;
  const upstream = keptUpstream({
    upstream: openUpstream(connection, credential, options, ports, log, hasStandIn),
    answers,
    name,
    url,
    troubleOf: (error) => troubleOf(error, options.signIn),
    explain: (error) => explained(error).failure.message,
    ...(door && { door }),
    clock,
    log,
  });
  const filtered = openToolFilter(upstream, connection, options, ports, log);
  await bridge({
    input,
    output,
    upstream: filtered,
    clock,
    log,
    maxMessageBytes,
    explain: explained,
    stop,
  });
}
