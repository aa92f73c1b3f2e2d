import { writeSync } from 'node:fs';
import { connect } from '#app/connect';
import { openHost, readText } from '#app/open-host';
import type { NetworkSettings } from '#transport/network-settings';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isSea } from 'node:sea';
import type { CommandHost } from '#cli/command-host';
import { allCommands, meantCommand } from '#cli/commands';
import { parseCommandLine } from '#cli/parse-command-line';
import { systemClock, wakeWatch } from '#clock/clock';
import type { Connection } from '#config/connection';
import { readOptions } from '#config/options';
import { packagedLauncher } from '#config/launch-entry';
import { asTyped, typedProgram } from '#config/typed-program';
import { ConfigurationError, UsageError } from '#config/errors';
import { fileWords, words } from '#errors';
import type { Host, Launcher } from '#host';
import { httpClient } from '#transport/http-client';
import { platformCode } from '#transport/http-error';
import type { KeyringLibrary } from '#keychain/os-secret-store';
import { jsonLinesLog, openLogFile } from '#log/log';
import { printable, redact } from 'latchkey-mcp/safe-text';

const stopping = new AbortController();
/** The argument with which a single executable becomes the guard of an agent's children. */
const guardWord = '__guard';
/** The connection that a command is about, for its error messages. */
let subject: Connection | undefined;
/** The command that signs in again, if it is not `latchkey login` with the name of the connection. */
let signsInAgain: string | undefined;
/** `false` while the output consists of messages or a log, whose writers handle errors, and not of a result for the person. */
let printsResult = true;
/** Set once the command line is read. No request is sent before. */
let network: NetworkSettings = { env: process.env };

/** Appends to the file of `--log-file`. */
let appendLog: ((line: string) => void) | undefined;

const watch = wakeWatch(
  () => Date.now(),
  () => performance.now(),
);

const launcher: Launcher = isSea()
  ? packagedLauncher(process.execPath, process.env)
  : { node: process.execPath, script: launcherPath() };

const base: Host = {
  platform: process.platform,
  home: homedir(),
  env: process.env,
  pid: process.pid,
  parentPid: process.ppid,
  nodeVersion: process.versions.node,
  clock: systemClock(),
  http: httpClient(
    () => network,
    () => watch.wokeWithin(1),
  ),
  launcher,
  program: typedProgram({ ...process, launcher }, process.argv[1] ?? '', { readText }),
  keyring: isSea() ? openKeyring : undefined,
  async openBrowser(url) {
    const browser = await import('#auth/open-browser');
    return browser.openBrowser(url, base);
  },
  writeLog(line) {
    process.stderr.write(line);
    appendLog?.(line);
  },
};

const host: CommandHost = {
  ...openHost(base, stop),
  interactive: process.stdin.isTTY && process.stdout.isTTY,
  stop,
  print: (line) => void process.stdout.write(`${printable(line)}\n`),
  advise: (line) => host.print(asTyped(line, base.program)),
  warn: (line) => void process.stderr.write(`${printable(asTyped(line, base.program))}\n`),
  async *lines(over) {
    const { createInterface } = await import('node:readline');
    yield* createInterface({ input: process.stdin, ...(over && { signal: over }) });
  },
  async secret(question) {
    const { hiddenLine } = await import('#cli/hidden-line');
    return hiddenLine(printable(question), process.stdin, process.stderr);
  },
  options(given) {
    const options = readOptions(given, process.env);
    const clientKeyPassphraseSecret = process.env['LATCHKEY_CLIENT_KEY_PASSPHRASE'] ?? '';
    network = { ...options, env: process.env, clientKeyPassphraseSecret };
    if (options.logFile !== undefined) appendLog ??= logFile(options.logFile);
    return options;
  },
  async connection(target, options) {
    subject = await host.readConnection(target, options);
    return subject;
  },
  about(connection) {
    subject = connection;
  },
  async acceptedTools({ url }, options) {
    const { openAcceptedTools } = await import('#pipeline/accepted-tools');
    return openAcceptedTools(url, options, host);
  },
  async listTools(connection, options) {
    const { openToolList } = await import('#app/checks');
    return openToolList(connection, options, { ...host, stop: host.stop() });
  },
  async doctor(target, options, progress) {
    const { openDoctor } = await import('#app/checks');
    return openDoctor(target, options, network, {
      ...host,
      ...progress,
      stop: host.stop(),
    });
  },
  async agent(plan, options, { json }) {
    const { openAgent } = await import('#app/agent');
    printsResult = false;
    const ending = new AbortController();
    // A second Ctrl-C ends the process immediately.
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => ending.abort());
    // The agent stops when the reader has disconnected, but not when the disk is full.
    process.stdout.on(
      'error',
      (error) => 'code' in error && error.code === 'EPIPE' && ending.abort(),
    );
    process.stderr.on('error', () => undefined);
    await openAgent(plan, options, network, {
      ...host,
      node: process.execPath,
      ...(isSea() && { guard: [process.execPath, guardWord] }),
      form: json ? 'json' : process.stdout.isTTY ? 'live' : 'plain',
      write: (text) =>
        process.stdout.destroyed ? writeAgain(1, text) : process.stdout.write(text),
      writeLog(line) {
        if (process.stderr.destroyed) writeAgain(2, line);
        else process.stderr.write(line);
        appendLog?.(line);
      },
      store: async () => host.store(options),
      stop: ending.signal,
      onReload: (reload) => process.on('SIGHUP', reload),
    });
  },
  async bridge(connection, options) {
    printsResult = false;
    await connect(connection, options, {
      ...host,
      input: process.stdin as AsyncIterable<Buffer>,
      output: process.stdout,
      stop: host.stop(),
    });
  },
};

/** Aborts at SIGTERM, SIGINT and SIGHUP, which from now on do not end the process immediately. */
function stop(): AbortSignal {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => stopping.abort());
  return stopping.signal;
}

/** @throws {UsageError} if the file cannot be opened */
function logFile(path: string): (line: string) => void {
  try {
    return openLogFile(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    throw new UsageError(`--log-file ${path} cannot be opened (${code})`, 'choose another file');
  }
}

/** Without listeners, an error of these streams would end the process in the middle of its work. {@link end} reports an error of stdout. */
function keepGoingWithoutOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** Writes without the stream, which has given up after an error such as a full disk. */
function writeAgain(descriptor: number, text: string): void {
  try {
    writeSync(descriptor, text);
  } catch {
    // Still full.
  }
}

async function openKeyring(directory: string): Promise<KeyringLibrary> {
  const { openEmbeddedKeyring } = await import('#keychain/embedded-library');
  return openEmbeddedKeyring(directory, base);
}

/** The launcher beside the sources, or beside the folder of the build. */
function launcherPath(): string {
  const built = import.meta.filename.endsWith('.js');
  return join(import.meta.dirname, built ? '..' : '.', 'bin', 'latchkey.js');
}

async function run(args: string[]): Promise<number> {
  if (args[0] === guardWord) {
    const { guardChildren } = await import('#agent/child-guard');
    await guardChildren(process);
    return 0;
  }
  const asked = await parseCommandLine(args);
  switch (asked.ask) {
    case 'help': {
      const { help } = await import('#cli/help');
      process.stdout.write(await help(asked.about, base.program));
      return 0;
    }
    case 'version': {
      const { programVersion } = await import('#version');
      host.print(await programVersion());
      return 0;
    }
    case 'run':
      signsInAgain = asked.command.signsInAgain?.(asked.input);
      return asked.command.run(asked.input, host, { all: allCommands, meant: meantCommand });
  }
}

function report(error: unknown): number {
  const { message, hint } = fileWords(error) ?? words(error, subject, signsInAgain);
  for (const line of message.split('\n')) host.warn(`latchkey: ${redact(line)}`);
  if (hint) host.warn(`hint: ${hint}`);
  if (appendLog) jsonLinesLog('error', appendLog).error(message, hint ? { hint } : {});
  const isUnknownName = error instanceof ConfigurationError && error.isUnknownName;
  return error instanceof UsageError || isUnknownName ? 2 : 1;
}

function end(code: number): void {
  // Neither open streams nor an assistant that does not read the rest may keep this process running.
  setTimeout(() => process.exit(code), 500).unref();
  process.stdout.write('', () => {
    const reason = platformCode(process.stdout.errored);
    // It is not a failure if a reader such as `head` has read enough.
    if (!printsResult || reason === '' || reason === 'EPIPE') process.exit(code);
    host.warn(`latchkey: the output could not be written (${reason})`);
    process.exit(1);
  });
}

keepGoingWithoutOutput();
// Not awaited: a single executable embeds CommonJS, which has no top-level `await`.
void run(process.argv.slice(2)).catch(report).then(end);
