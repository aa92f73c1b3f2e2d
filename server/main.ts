import { createServer } from 'node:net';
import { resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import { passwordHashing } from '#accounts/passwords';
import { helpText, nounHelpText, startHelpText } from '#cli/help';
import { systemClock } from '#model/clock';
import { checkBaseUrl, listeningUrl, noteBaseUrl } from '#config/base-url';
import { startOptions } from '#config/option';
import { readOptions } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import type { Tracing } from 'latchkey-mcp/tracing';
import { readTraceOptions } from 'latchkey-mcp/trace-options';
import { databaseFault } from '#db/faults';
import { batchedSink, jsonLog, type Log, logLevels } from '#log/log';
import { printable } from '#log/printable';
import { redact } from '#log/redact';
import manifest from './package.json' with { type: 'json' };
import { newOwnerSocket, type OwnerSocket, removeOwnerSocket } from './nodes/owner-socket.ts';
import { greet } from '#app/greeting';
import { runCommand } from '#app/run-command';
import { serve } from '#app/serve';
import type { ServeOptions } from '#app/serve-options';
import { isInUse } from '#app/stage-backup';
import { processCount, readServeOptions, wholeNumber } from '#app/start-options';
import { lockDataFolder } from '#app/stores';
import { Supervisor, WorkerStartError, workerProcess } from '#app/supervisor';

const here = new URL('.', import.meta.url);
/** Whether this is the one file of a build, and not its sources. */
const isBuilt = import.meta.filename.endsWith('.js');
const clock = systemClock();
const out = (line: string) => void process.stdout.write(`${printable(line)}\n`);
const print = (text: string) => text.split('\n').forEach(out);
/** Writes to stderr, so that a program that reads stdout does not get the line. */
const tell = (line: string) => void process.stderr.write(`${printable(line)}\n`);

// If the reader of stdout disconnects, as `head` does, the server must neither stop nor print a stack.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const logSink = batchedSink(process.stderr);
process.on('exit', () => logSink.flush());

try {
  await run(process.argv.slice(2));
} catch (error) {
  fail(error);
}

async function run(argv: readonly string[]): Promise<void> {
  const [first] = argv;
  const wantsHelp = argv.some((word) => word === '--help' || word === '-h');
  if (first === undefined || first === 'help' || (wantsHelp && first.startsWith('-'))) {
    return print(helpText(manifest.version));
  }
  if (first === '--version') return out(manifest.version);
  if (first === 'start') return wantsHelp ? print(startHelpText()) : start(argv.slice(1));
  const [, second = '--help'] = argv;
  const nounHelp = second.startsWith('-') && wantsHelp ? nounHelpText(first) : undefined;
  if (nounHelp !== undefined) return print(nounHelp);
  const terminal = {
    input: process.stdin,
    prompt: (text: string) => void process.stderr.write(text),
  };
  const { env } = process;
  await runCommand(argv, { env, clock, hashing: passwordHashing(), terminal, out, tell });
}

async function start(argv: readonly string[]): Promise<void> {
  const input = readOptions(startOptions, argv, process.env, 'latchkey-server start --help');
  const [extra] = input.positionals;
  if (extra !== undefined) throw new UsageError(`'${extra}' is not an option of start`);
  const level = logLevels.find((known) => known === input.must('log-level'));
  if (!level) throw new UsageError('--log-level is one of', logLevels.join(', '));
  const worker = workerProcess(process);
  const processes = processCount(input);
  const host = input.must('host');
  const askedPort = wholeNumber('port', input.must('port'), 65_535);
  const port = worker?.port ?? (await freePort(host, askedPort));
  const base = checkBaseUrl(input.text('base-url') ?? listeningUrl(host, port));

  const folder = absolute(input.must('data-dir'));
  const isNew = !isInUse(folder);

  const log = jsonLog(level, logSink, worker?.number);
  const chosen = { input, worker, host, port, base, folder, clock, log };
  const options = readServeOptions({ ...chosen, own: process, proxy: proxySource() });
  if (!options.database && !worker) lockUntilExit(folder);
  const listening = `listening on ${listeningUrl(host, port)}`;
  if (processes > 1 && !worker) {
    const { shutdownDelayMs = 0 } = options;
    const ownerSocket = options.database ? undefined : newOwnerSocket(process.platform);
    removeAtExit(ownerSocket, () => true);
    const shared = { processes, port, ownerSocket, shutdownDelayMs, log, failed: fail };
    const supervisor = await Supervisor.open(shared);
    stopOnSignal(supervisor);
    if (!options.database) noteBaseUrl(folder, base);
    return out(`${listening} with ${processes} processes`);
  }
  // If the supervisor was killed, its first worker removes the socket.
  removeAtExit(worker?.ownerSocket, () => !process.connected);
  const server = await serve({ ...options, tracing: await tracingOf(log) });
  const stop = stopOnSignal(server);
  worker?.onStop(stop);
  if (!options.database && !worker) noteBaseUrl(folder, base);
  if (worker?.isGreeter ?? true) {
    const sources = isBuilt ? undefined : here;
    const nodePath = process.execPath;
    await greet(server, { input, base, folder, isNew, sources, nodePath, clock, out });
  }
  if (server.metricsUrl !== undefined) out(`metrics: ${server.metricsUrl}`);
  if (worker) worker.ready();
  else out(listening);
}

function removeAtExit(socket: OwnerSocket | undefined, isDue: () => boolean): void {
  if (socket) process.on('exit', () => isDue() && removeOwnerSocket(socket));
}

/** Stops the server on a signal, once. @returns a function that stops it without a signal */
function stopOnSignal(server: { close(): Promise<void> }): () => void {
  let isStopping = false;
  const stop = () => {
    if (isStopping) return;
    isStopping = true;
    server.close().then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
  };
  process.once('SIGTERM', stop).once('SIGINT', stop);
  return stop;
}

/** Traces, if the environment names a collector; only then is their code loaded. */
async function tracingOf(log: Log): Promise<Tracing | undefined> {
  const choice = readTraceOptions(process.env);
  if (choice.outcome === 'off') return undefined;
  if (choice.outcome === 'unusable') throw new UsageError(choice.message, choice.hint);
  const { Tracing } = await import('latchkey-mcp/tracing');
  return new Tracing({
    ...choice.options,
    program: 'latchkey-server',
    version: manifest.version,
    failed: (reason) => log.warn({ reason }, 'traces not delivered'),
  });
}

/** @throws {CommandError} if another server uses the folder */
function lockUntilExit(folder: string): void {
  const lock = lockDataFolder(folder);
  // Without this reference, the lock would be garbage-collected and released.
  process.once('exit', () => lock.close());
}

/** Package and bundle of the proxy lie beside the one file of a build. In a source tree, scripts make them. */
function proxySource(): ServeOptions['proxy'] {
  const { version } = manifest;
  const path = (relative: string) => fileURLToPath(new URL(relative, here));
  const name = `latchkey-${version}`;
  const source = isBuilt
    ? { file: path(`${name}.tgz`), bundle: path(`${name}.mcpb`) }
    : {
        script: path('../scripts/pack.ts'),
        bundle: path(`../dist/${name}.mcpb`),
        build: {
          script: path('../scripts/mcpb.ts'),
          sources: ['../proxy', '../mcp', '../scripts', '../package-lock.json'].map(path),
        },
      };
  return { version, source };
}

/** The port itself, or a free one for 0: the public URL must be known before anything listens. */
async function freePort(host: string, port: number): Promise<number> {
  if (port !== 0) return port;
  const probe = createServer();
  return new Promise((resolve, reject) => {
    probe.once('error', reject).listen(0, host, () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0));
    });
  });
}

/** One line that says what failed, one that says what to do, and the exit code. */
function fail(error: unknown): void {
  if (error instanceof WorkerStartError) process.exit(error.exitCode);
  const { message, hint } = words(error);
  const lines = [`latchkey-server: ${message}`, ...(hint === undefined ? [] : [`hint: ${hint}`])];
  for (const line of lines) process.stderr.write(`${printable(redact(line))}\n`);
  process.exit(error instanceof UsageError ? 2 : 1);
}

function words(error: unknown): { message: string; hint?: string | undefined } {
  if (error instanceof UsageError || error instanceof CommandError) return error;
  if (!(error instanceof Error)) return { message: String(error) };
  const code = 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE' && 'port' in error) {
    return {
      message: `port ${String(error.port)} is in use`,
      hint: 'stop the program that uses the port, or choose another port with --port',
    };
  }
  if (databaseFault(error) === 'full') {
    return {
      message: error.message,
      hint: 'free disk space, or choose another folder with --data-dir',
    };
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'ENOSPC' || code === 'EROFS') {
    return { message: error.message, hint: 'choose another folder with --data-dir' };
  }
  return { message: error.message };
}
