import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism, hostname } from 'node:os';
import { resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import { passwordHashing } from '#accounts/passwords';
import { demoBanner, type DemoPlace } from '#cli/demo-banner';
import { helpText, nounHelpText, startHelpText } from '#cli/help';
import { systemClock } from '#model/clock';
import { checkBaseUrl, listeningUrl, noteBaseUrl } from '#config/base-url';
import { readOidcOptions } from '#config/oidc-options';
import { databasePlace, natsPlace } from '#config/database-place';
import { dataDir, startOptions } from '#config/option';
import { type Input, readOptions } from '#config/read-options';
import { readSkillFolders, readStdioServers } from '#config/upstream-options';
import type { DocumentedClient } from '#db/clients';
import { leastRetentionDays } from '#db/migrations/0003-audit-retention';
import { CommandError, UsageError } from '#config/usage-error';
import type { Tracing } from 'latchkey-mcp/tracing';
import { readTraceOptions } from 'latchkey-mcp/trace-options';
import { databaseFault } from '#db/faults';
import type { ProxySource } from '#download/proxy-download';
import { startWords, typedStart } from '#download/proxy-reference';
import { readProvidedDocument } from '#oauth/client-documents';
import { batchedSink, jsonLog, type Log, logLevels } from '#log/log';
import { printable } from '#log/printable';
import { redact } from '#log/redact';
import manifest from './package.json' with { type: 'json' };
import { newOwnerSocket, type OwnerSocket, removeOwnerSocket } from './nodes/owner-socket.ts';
import { runCommand } from '#app/run-command';
import { type RunningServer, serve } from '#app/serve';
import type { ServeOptions } from '#app/serve-options';
import { isInUse } from '#app/stage-backup';
import { lockDataFolder } from '#app/stores';
import { Supervisor, WorkerStartError, type WorkerProcess, workerProcess } from '#app/supervisor';

const here = new URL('.', import.meta.url);
/** Whether this is the one file of a build, and not its sources. */
const isBuilt = import.meta.filename.endsWith('.js');
const clock = systemClock();
const out = (line: string) => void process.stdout.write(`${printable(line)}\n`);
const print = (text: string) => text.split('\n').forEach(out);
/** Beside what a program reads of stdout. */
const tell = (line: string) => void process.stderr.write(`${printable(line)}\n`);

// A reader that went away, as `head` does, is no reason to stop serving or to print a stack.
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
  await runCommand(argv, {
    env: process.env,
    clock,
    hashing: passwordHashing(),
    terminal,
    out,
    tell,
  });
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

  const stdioFile = input.text('stdio-servers');
  const folder = absolute(input.must('data-dir'));
  const isNew = !isInUse(folder);

  const log = jsonLog(level, logSink, worker?.number);
  const options: ServeOptions = {
    dataDir: folder,
    database: nodePlace(input, worker),
    sharedFolder: worker?.ownerSocket && {
      socket: worker.ownerSocket,
      isOwner: worker.number === 1,
    },
    localBus: worker?.bus,
    masterKeyFile: input.text('master-key-file'),
    host,
    port,
    base,
    trustedProxies: input.list('trust-proxy'),
    firstOrganization: input.flag('demo') ? 'demo' : undefined,
    oidc: readOidcOptions(input),
    allowedOrigins: input.list('allowed-origin'),
    dynamicRegistration: input.flag('dynamic-registration'),
    announcesClientDocuments: !input.flag('no-client-metadata-documents'),
    clientDocuments: input.list('client-metadata-document').map(clientDocumentIn),
    outboundHosts: input.list('outbound-host'),
    ...(stdioFile !== undefined && { stdioServers: stdioServersIn(stdioFile) }),
    skillFolders: readSkillFolders(input.list('skills'), isFolder),
    env: process.env,
    platform: process.platform,
    maxBodyBytes: wholeNumber('max-body-bytes', input.must('max-body-bytes'), 1024 ** 3),
    auditRetentionDays: retentionDays(input),
    proxy: { version: manifest.version, source: proxySource() },
    shutdownDelayMs: 1000 * wholeNumber('shutdown-delay', input.must('shutdown-delay'), 300),
    nodePath: process.execPath,
    metrics: input.isGiven('metrics-address') ? metricsAddress(input, worker) : undefined,
    clock,
    log,
  };
  if (!options.database && !worker) lockUntilExit(folder);
  const listening = `listening on ${listeningUrl(host, port)}`;
  if (processes > 1 && !worker) {
    const { shutdownDelayMs = 0 } = options;
    const ownerSocket = options.database ? undefined : newOwnerSocket(process.platform);
    removeAtExit(ownerSocket, () => true);
    const supervisor = await Supervisor.open({
      processes,
      port,
      ownerSocket,
      shutdownDelayMs,
      log,
      failed: fail,
    });
    stopOnSignal(supervisor);
    if (!options.database) noteBaseUrl(folder, base);
    return out(`${listening} with ${processes} processes`);
  }
  // If the supervisor is killed, its workers end, and the first of them does this.
  removeAtExit(worker?.ownerSocket, () => !process.connected);
  const server = await serve({ ...options, tracing: await tracingOf(log) });
  const stop = stopOnSignal(server);
  worker?.onStop(stop);
  if (!options.database && !worker) noteBaseUrl(folder, base);
  if (worker?.isGreeter ?? true) await greet(server, { input, base, folder, isNew });
  if (server.metricsUrl !== undefined) out(`metrics: ${server.metricsUrl}`);
  if (worker) worker.ready();
  else out(listening);
}

function removeAtExit(socket: OwnerSocket | undefined, isDue: () => boolean): void {
  if (socket) process.on('exit', () => isDue() && removeOwnerSocket(socket));
}

/** @returns what stops it without a signal; both may come, and each only counts once */
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

/** Prints how the first person signs in, and where the data is. */
async function greet(
  server: RunningServer,
  {
    input,
    base,
    folder,
    isNew,
  }: {
    readonly input: Input;
    readonly base: string;
    readonly folder: string;
    readonly isNew: boolean;
  },
): Promise<void> {
  const link = await server.firstLink();
  if (link) {
    const minutes = Math.floor(link.secondsLeft / 60);
    const within = minutes >= 59 ? 'an hour' : minutes > 1 ? `${minutes} minutes` : 'a minute';
    out(`No account exists yet. To create yours, open this one-time link within ${within}:`);
    out('');
    out(`  ${base}${link.path}`);
    out('');
  }
  if (input.flag('demo')) {
    const place = await demoPlace(base, server, folder);
    const showsCredentials = input.flag('show-demo-credentials');
    const at = { stores: server.stores, clock };
    for (const line of await demoBanner(place, showsCredentials, at)) print(line);
  }
  out(
    input.isGiven('database-url')
      ? 'database: PostgreSQL'
      : `data folder: ${folder}${isNew ? ' (new)' : ''}`,
  );
}

/** @throws {UsageError} when it is no number of processes */
function processCount(input: Input): number {
  const text = input.must('processes');
  const most = 64;
  const count = text === 'auto' ? Math.min(availableParallelism(), most) : Number(text);
  if (text !== 'auto' && (!/^\d+$/.test(text) || count < 1 || count > most)) {
    throw new UsageError(`--processes '${text}' is neither a number from 1 to ${most} nor 'auto'`);
  }
  return count;
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

/** The shared database and the name of this node, where several nodes share one. */
function nodePlace(input: Input, worker: WorkerProcess | undefined) {
  const place = databasePlace(input);
  const nats = natsPlace(input);
  if (!place) return undefined;
  if (!input.isGiven('master-key-file')) {
    throw new UsageError(
      '--master-key-file is missing',
      'nodes that share a database need the same master key: create it once, for example with openssl rand -base64 32, and copy it to each node',
    );
  }
  const mayLoseWrites = input.flag('allow-async-standby');
  const name = input.text('node-name') ?? hostname();
  const nodeName = worker ? `${name}/${worker.number}` : name;
  return { ...place, mayLoseWrites, nats, nodeName };
}

/**
 * Each worker has an address of its own: the first one the port itself, the next one the port after it.
 *
 * @throws {UsageError} when it is no HOST:PORT
 */
function metricsAddress(input: Input, worker: WorkerProcess | undefined) {
  const [, host, port] =
    /^(\[[\da-f:]+\]|[^\s:[\]/]+):(\d+)$/i.exec(input.must('metrics-address')) ?? [];
  if (host === undefined || port === undefined) {
    throw new UsageError(
      `--metrics-address '${input.must('metrics-address')}' is not HOST:PORT`,
      'write it as 127.0.0.1:9464',
    );
  }
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  const first = wholeNumber('metrics-address', port, 65_536 - processCount(input));
  return { host: bare, port: worker && first !== 0 ? first + worker.number - 1 : first };
}

/** @throws {CommandError} if another server uses the folder */
function lockUntilExit(folder: string): void {
  const lock = lockDataFolder(folder);
  // A lock that nothing refers to would be released.
  process.once('exit', () => lock.close());
}

/** @throws {UsageError} when it is not the document of a client */
function clientDocumentIn(file: string): DocumentedClient {
  try {
    return readProvidedDocument(readFileSync(file, 'utf8'));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(`--client-metadata-document ${file}: ${why}`);
  }
}

/** @throws {UsageError} when it cannot be read, or others than its owner could write commands into it */
function stdioServersIn(file: string) {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--stdio-servers: ${error instanceof Error ? error.message : file}`);
  }
  if ((statSync(file).mode & 0o022) !== 0 && process.platform !== 'win32') {
    throw new UsageError(`--stdio-servers other users can write to ${file}`, `chmod go-w ${file}`);
  }
  return readStdioServers(text, file);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Package and bundle of the proxy lie beside the one file of a build. In a source tree, scripts make them. */
function proxySource(): ProxySource {
  const path = (relative: string) => fileURLToPath(new URL(relative, here));
  const name = `latchkey-${manifest.version}`;
  return isBuilt
    ? { file: path(`${name}.tgz`), bundle: path(`${name}.mcpb`) }
    : {
        script: path('../scripts/pack.ts'),
        bundle: path(`../dist/${name}.mcpb`),
        build: {
          script: path('../scripts/mcpb.ts'),
          sources: ['../proxy', '../mcp', '../scripts', '../package-lock.json'].map(path),
        },
      };
}

/** How the proxy and this program are started on this machine: an assistant needs absolute paths, as it has no working folder. */
async function demoPlace(base: string, server: RunningServer, path: string): Promise<DemoPlace> {
  const isUsual = path === absolute(dataDir.fallback ?? '');
  const data = isUsual ? '' : ` --data-dir ${/\s/.test(path) ? `"${path}"` : path}`;
  const launcher = fileURLToPath(new URL('../proxy/bin/latchkey.js', here));
  if (!isBuilt && existsSync(launcher)) {
    return {
      base,
      proxyCommand: [process.execPath, launcher],
      typedProxy: 'npx --no latchkey',
      typedServer: (typed) => `npx --no latchkey-server ${typed}${data}`,
    };
  }
  const proxy = await server.proxy();
  return {
    base,
    proxyCommand: startWords(proxy),
    typedProxy: typedStart(proxy),
    typedServer: (typed) => `latchkey-server ${typed}${data}`,
  };
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

/** For how many days the audit log is kept; `undefined`: for ever. */
function retentionDays(input: Input): number | undefined {
  const text = input.text('audit-retention');
  if (text === undefined) return undefined;
  const days = wholeNumber('audit-retention', text, 36_500);
  if (days >= leastRetentionDays) return days;
  throw new UsageError(
    `--audit-retention '${text}' is less than ${leastRetentionDays} days`,
    'without the option, the audit log is kept for ever',
  );
}

function wholeNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= most) return value;
  throw new UsageError(`--${name} '${text}' is not a whole number up to ${most}`);
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
