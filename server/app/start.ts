import { flushCompileCache } from 'node:module';
import { createServer } from 'node:net';
import { join, resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Tracing } from 'latchkey-mcp/tracing';
import { readTraceOptions } from 'latchkey-mcp/trace-options';
import { checkBaseUrl, listeningUrl, noteBaseUrl } from '#config/base-url';
import { startOptions } from '#config/option';
import { type Input, misspeltVariables, readOptions } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { batchedSink, jsonLog, type Log, logLevels } from '#log/log';
import type { Clock } from '#model/clock';
import { newOwnerSocket, type OwnerSocket, removeOwnerSocket } from '#nodes/owner-socket';
import { greet } from './greeting.ts';
import { serve } from './serve.ts';
import type { ServeOptions } from './serve-options.ts';
import { isInUse } from './stage-backup.ts';
import {
  processCount,
  readServeOptions,
  wholeNumber,
  writesCallsToStdout,
} from './start-options.ts';
import { lockDataFolder } from './stores.ts';
import { Supervisor, WorkerStartError, workerProcess } from './supervisor.ts';

/** The parts of its process that the server uses. */
export interface StartHost {
  readonly own: NodeJS.Process;
  readonly version: string;
  /** The folder of the program's main file. */
  readonly here: URL;
  /** Whether `here` contains the files of a build rather than the sources. */
  readonly isBuilt: boolean;
  readonly clock: Clock;
  readonly out: (line: string) => void;
  /** Writes a line to stderr. */
  readonly tell: (line: string) => void;
  /** Prints what ended the server, and ends the process. */
  readonly fail: (error: unknown) => void;
}

/**
 * `latchkey-server start`: listens, until a signal stops it.
 *
 * @throws {UsageError} if the command line or an option is wrong
 * @throws {CommandError} if the server cannot start
 */
export async function start(argv: readonly string[], program: StartHost): Promise<void> {
  const { own, clock, fail } = program;
  const input = readOptions(startOptions, argv, own.env, 'latchkey-server start --help');
  const out = writesCallsToStdout(input) ? program.tell : program.out;
  const [extra] = input.positionals;
  if (extra !== undefined) throw new UsageError(`'${extra}' is not an option of start`);
  const level = logLevels.find((known) => known === input.must('log-level'));
  if (!level) throw new UsageError('--log-level is one of', logLevels.join(', '));
  const worker = workerProcess(own);
  const processes = processCount(input);
  const host = input.must('host');
  const askedPort = wholeNumber('port', input.must('port'), 65_535);
  const port = worker?.port ?? (await freePort(host, askedPort));
  const base = checkBaseUrl(input.text('base-url') ?? listeningUrl(host, port));

  const folder = absolute(input.must('data-dir'));
  const isNew = !isInUse(folder);

  const logSink = batchedSink(own.stderr);
  own.on('exit', () => logSink.flush());
  const log = jsonLog(level, logSink, worker?.number);
  if (!worker) {
    for (const { variable, meant } of misspeltVariables(startOptions, own.env)) {
      log.warn({ variable }, `unknown variable; did you mean ${meant}?`);
    }
  }
  const chosen = { input, worker, host, port, base, folder, clock, log };
  const options = readServeOptions({ ...chosen, own, proxy: proxySource(program, folder, input) });
  if (!options.database && !worker) lockUntilExit(own, folder);
  const listening = `listening on ${listeningUrl(host, port)}`;
  if (processes > 1 && !worker) {
    const { shutdownDelayMs = 0 } = options;
    const ownerSocket = options.database ? undefined : newOwnerSocket(own.platform);
    removeAtExit(own, ownerSocket, () => true);
    const shared = { processes, port, ownerSocket, shutdownDelayMs, log, failed: fail };
    const supervisor = await Supervisor.open(shared).catch((error: unknown) => {
      // The worker has printed why.
      if (error instanceof WorkerStartError) own.exit(error.exitCode);
      throw error;
    });
    stopOnSignal(program, supervisor);
    if (!options.database) noteBaseUrl(folder, base);
    return out(`${listening} with ${processes} processes`);
  }
  // If the supervisor was killed, its workers remove the socket.
  removeAtExit(own, worker?.ownerSocket, () => !own.connected);
  const server = await serve({ ...options, tracing: await tracingOf(log, program) });
  const stop = stopOnSignal(program, server);
  worker?.onStop(stop);
  if (!options.database && !worker) noteBaseUrl(folder, base);
  if (worker?.isGreeter ?? true) {
    const sources = program.isBuilt ? undefined : program.here;
    const nodePath = own.execPath;
    await greet(server, { input, base, folder, isNew, sources, nodePath, clock, out });
  }
  if (server.metricsUrl !== undefined) out(`metrics: ${server.metricsUrl}`);
  if (worker) worker.ready();
  else out(listening);
  // Otherwise the compiled code would be written only at a clean exit, and a server that is always killed would compile it at
  // every start.
  flushCompileCache();
}

function removeAtExit(
  own: NodeJS.Process,
  socket: OwnerSocket | undefined,
  isDue: () => boolean,
): void {
  if (socket) own.on('exit', () => isDue() && removeOwnerSocket(socket));
}

/** Stops the server at the first SIGTERM or SIGINT, and ends the process. @returns a function that stops it without a signal */
function stopOnSignal(
  { own, fail }: Pick<StartHost, 'own' | 'fail'>,
  server: { close(): Promise<void> },
): () => void {
  let isStopping = false;
  const stop = () => {
    if (isStopping) return;
    isStopping = true;
    server.close().then(
      () => own.exit(0),
      (error: unknown) => fail(error),
    );
  };
  own.once('SIGTERM', stop).once('SIGINT', stop);
  return stop;
}

/** Starts tracing if the environment names a collector, and loads the code for it only then. */
async function tracingOf(
  log: Log,
  { own, version }: Pick<StartHost, 'own' | 'version'>,
): Promise<Tracing | undefined> {
  const choice = readTraceOptions(own.env);
  if (choice.outcome === 'off') return undefined;
  if (choice.outcome === 'unusable') throw new UsageError(choice.message, choice.hint);
  const { Tracing } = await import('latchkey-mcp/tracing');
  return new Tracing({
    ...choice.options,
    program: 'latchkey-server',
    version,
    failed: (reason) => log.warn({ reason }, 'traces not delivered'),
  });
}

/** @throws {CommandError} if another server uses the folder */
function lockUntilExit(own: NodeJS.Process, folder: string): void {
  const lock = lockDataFolder(folder);
  // Without this reference, the lock would be garbage-collected and released.
  own.once('exit', () => lock.close());
}

/**
 * Finds the proxy's package and bundle: a build has them beside its files; in a source tree, scripts make them. Programs are in the
 * folder that the operator chose, or else in the data folder and in the output folders of a source tree.
 */
function proxySource(
  { version, here, isBuilt }: StartHost,
  dataFolder: string,
  input: Input,
): ServeOptions['proxy'] {
  const path = (relative: string) => fileURLToPath(new URL(relative, here));
  const name = `latchkey-${version}`;
  const chosen = input.text('download-folder');
  const usual = [join(dataFolder, 'downloads')];
  if (!isBuilt) usual.push(path('../dist/sea'), path('../tray-app/dist/packages'));
  const programFolders = chosen === undefined ? usual : [absolute(chosen)];
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
  return { version, source: { ...source, programFolders } };
}

/** Returns `port`, or a free port for 0, because the public URL must be known before anything listens. */
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
