import { statSync } from 'node:fs';
import { availableParallelism, hostname } from 'node:os';
import { resolve as absolute } from 'node:path';
import { OutputFile, OutputStream } from '#activity/call-output';
import { isPermissionFault, mayNot } from '#model/running-user';
import { shellWord } from '#model/shell-word';
import { databasePlace, natsPlace } from '#config/database-place';
import { readNamedFile } from '#config/named-file';
import { readOidcOptions } from '#config/oidc-options';
import type { Input } from '#config/read-options';
import { readSkillFolders, readStdioServers } from '#config/upstream-options';
import { CommandError, UsageError } from '#config/usage-error';
import type { DocumentedClient } from '#db/clients';
import { leastRetentionDays } from '#db/migrations/0003-audit-retention';
import { readProvidedDocument } from '#oauth/client-documents';
import { type CallLogOptions, callLogModes, type ServeOptions } from './serve-options.ts';
import type { WorkerProcess } from './supervisor.ts';

/** The values that `start` reads before the other options. */
interface Start extends Pick<ServeOptions, 'host' | 'port' | 'base' | 'clock' | 'log' | 'proxy'> {
  readonly input: Input;
  readonly worker: WorkerProcess | undefined;
  /** The absolute path of the data folder. */
  readonly folder: string;
  readonly own: Pick<NodeJS.Process, 'env' | 'platform' | 'execPath' | 'stdout'>;
}

/** Reads the options of a server from those of `start`. @throws {UsageError} */
export function readServeOptions(start: Start): ServeOptions {
  const { input, worker, host, port, base, folder, clock, log, own, proxy } = start;
  const stdioFile = input.text('stdio-servers');
  return {
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
    ...(stdioFile !== undefined && { stdioServers: stdioServersIn(stdioFile, own.platform) }),
    skillFolders: readSkillFolders(input.list('skills'), isFolder),
    env: own.env,
    platform: own.platform,
    maxBodyBytes: wholeNumber('max-body-bytes', input.must('max-body-bytes'), 1024 ** 3),
    auditRetentionDays: retentionDays(input),
    callLog: callLogOptions(input, worker, own.stdout),
    proxy,
    shutdownDelayMs: 1000 * wholeNumber('shutdown-delay', input.must('shutdown-delay'), 300),
    nodePath: own.execPath,
    metrics: input.isGiven('metrics-address') ? metricsAddress(input, worker) : undefined,
    clock,
    log,
  };
}

/** @throws {UsageError} unless `--processes` is `auto` or a number from 1 to 64 */
export function processCount(input: Input): number {
  const text = input.must('processes');
  const most = 64;
  const count = text === 'auto' ? Math.min(availableParallelism(), most) : Number(text);
  if (text !== 'auto' && (!/^\d+$/.test(text) || count < 1 || count > most)) {
    throw new UsageError(`--processes '${text}' is neither a number from 1 to ${most} nor 'auto'`);
  }
  return count;
}

/** The shared database and the name of this node; `undefined` for SQLite. */
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
  const connections = wholeNumber('database-connections', input.must('database-connections'), 200);
  if (connections === 0) throw new UsageError('--database-connections must be at least 1');
  return { ...place, connections, mayLoseWrites, nats, nodeName };
}

/**
 * Each worker has an address of its own: the first worker uses the given port, the second one the next port, and so on.
 *
 * @throws {UsageError} unless the option is HOST:PORT
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

/** @throws {CommandError} if the file cannot be read @throws {UsageError} unless it describes a client */
function clientDocumentIn(file: string): DocumentedClient {
  const text = readNamedFile({ option: 'client-metadata-document', file });
  try {
    return readProvidedDocument(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(`--client-metadata-document ${file}: ${why}`);
  }
}

/** @throws {CommandError} if the file cannot be read @throws {UsageError} if users other than its owner could write commands into it */
function stdioServersIn(file: string, platform: NodeJS.Platform) {
  const text = readNamedFile({ option: 'stdio-servers', file });
  if ((statSync(file).mode & 0o022) !== 0 && platform !== 'win32') {
    throw new UsageError(
      `--stdio-servers other users can write to ${file}`,
      `chmod go-w ${shellWord(file)}`,
    );
  }
  return readStdioServers(text, file);
}

/** @throws {CommandError} if this user may not access the path */
function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch (cause) {
    if (!isPermissionFault(cause)) throw cause;
    const why = `--skills: ${path} cannot be read: ${mayNot('read it')}`;
    throw new CommandError(why, 'let that user read the folder', { cause });
  }
}

/** Whether recorded calls are written to stdout. If so, nothing else may be written there. */
export function writesCallsToStdout(input: Input): boolean {
  return input.text('call-log-output') === '-';
}

/** @throws {UsageError} if the mode is unknown, or if there is an output but nothing is recorded */
function callLogOptions(
  input: Input,
  worker: WorkerProcess | undefined,
  stdout: NodeJS.Process['stdout'],
): CallLogOptions {
  const mode = callLogModes.find((known) => known === input.must('call-log'));
  if (!mode) {
    throw new UsageError(
      `--call-log '${input.must('call-log')}' is unknown`,
      `use ${callLogModes.join(', ')}`,
    );
  }
  const output = input.text('call-log-output');
  if (output !== undefined && mode === 'off') {
    throw new UsageError(
      '--call-log-output has nothing to write with --call-log off',
      'leave one of them out',
    );
  }
  const name = input.text('node-name') ?? hostname();
  return {
    mode,
    recordsAll: input.flag('call-log-lists'),
    node: worker ? `${name}/${worker.number}` : name,
    output:
      output === undefined
        ? undefined
        : writesCallsToStdout(input)
          ? new OutputStream(stdout)
          : new OutputFile(absolute(output)),
  };
}

/** For how many days the audit log is kept; `undefined` means for ever. */
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

/** @throws {UsageError} unless the option is a whole number from 0 to `most` */
export function wholeNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= most) return value;
  throw new UsageError(`--${name} '${text}' is not a whole number up to ${most}`);
}
