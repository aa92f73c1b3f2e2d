import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import {
  AgentError,
  agentKeyAccount,
  checkAgentKey,
  checkKeyStore,
  missingKeyFile,
  serverBase,
} from '#agent/agent-key';
import { serviceFile, serviceMark } from '#agent/service-file';
import { UsageError } from '#config/errors';
import { containsUser, stableProgram } from '#config/launch-entry';
import { npxHint } from '#config/typed-program';
import type { Options } from '#config/options';
import { registryFile } from '#config/user-files';
import type { AgentPlan, CommandHost } from './command-host.ts';
import type { Command, CommandInput, Flag } from './command.ts';
import { checkCertificates, missingNetwork } from './inherited-network.ts';

const flags = {
  'server-url': { value: 'URL', doc: 'the URL of the server; LATCHKEY_SERVER_URL' },
  config: {
    value: 'FILE',
    doc: 'the configuration of the agent (agent.json in the configuration folder of Latchkey); LATCHKEY_CONFIG',
  },
  'key-file': {
    value: 'FILE',
    doc: 'a file with the key, readable only by its owner (0600); LATCHKEY_AGENT_KEY_FILE',
  },
} satisfies Record<string, Flag>;

const userFlag = {
  doc: 'install a user service, which starts when you log in, instead of a system service',
};

const agentLoginCommand: Command = {
  name: 'agent login',
  operands: '',
  summary: 'store the key of an agent in the keychain',
  about: `Stores the agent key from the dashboard in the keychain of this computer. It asks for the key, or reads it
from standard input. A running agent uses a new key after SIGHUP.`,
  flags: { 'server-url': flags['server-url'] },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: [
    'latchkey agent login --server-url https://latchkey.example.com',
    'latchkey agent login --server-url https://latchkey.example.com <key.txt',
  ],
  async run(input, host) {
    await agentLogin(input, host);
    return 0;
  },
};

const agentInstallCommand: Command = {
  name: 'agent install',
  operands: '',
  summary: 'write a service that starts the agent',
  about: `Writes a service for systemd or launchd that starts the agent when this computer starts, or with --user when you
log in, and prints the commands that start it. A system service has no keychain, so it needs --key-file. On Linux it
runs under an account of its own, on macOS as root without --run-as. The command replaces only a service that it wrote
before.`,
  flags: {
    ...flags,
    user: userFlag,
    'run-as': {
      value: 'USER',
      doc: 'on macOS, run a system service under this account instead of root',
    },
    'dry-run': { doc: 'print the service without writing it' },
  },
  options: ['log-level', 'log-file', 'proxy', 'ca-file'],
  examples: [
    'latchkey agent install --user --server-url https://latchkey.example.com --dry-run',
    'latchkey agent install --server-url https://latchkey.example.com --key-file /etc/latchkey/agent.key',
  ],
  async run(input, host) {
    await agentService('install', input, host);
    return 0;
  },
};

const agentUninstallCommand: Command = {
  name: 'agent uninstall',
  operands: '',
  summary: 'remove the service that install wrote',
  about: `Removes the service that latchkey agent install wrote, and prints the commands that stop it. The key and the
configuration of the agent stay.`,
  flags: { user: { doc: 'remove the user service instead of the system service' } },
  options: [],
  examples: ['latchkey agent uninstall', 'latchkey agent uninstall --user'],
  async run(input, host) {
    await agentService('uninstall', input, host);
    return 0;
  },
};

/** `latchkey agent`. */
export const agentCommand: Command = {
  name: 'agent',
  subcommands: [agentLoginCommand, agentInstallCommand, agentUninstallCommand],
  operands: '[login|install|uninstall]',
  summary: 'let a Latchkey server reach MCP servers in this network',
  about: `Connects to a Latchkey server from inside a private network, without an open port. It serves each MCP server
of its configuration file that the dashboard assigns to this agent:

  {"servers": {"files": {"command": "npx", "args": ["…"], "env": {"TOKEN": "…"}, "denyTools": ["write_*"]},
               "crm": {"url": "http://127.0.0.1:3000/mcp", "headers": {"authorization": {"env": "CRM_AUTH"}}}}}

The dashboard shows the key of the agent once. Store it in the keychain with login, or set LATCHKEY_AGENT_KEY or
--key-file. The agent uses a new key in that file without a restart, except as a system service of systemd
(systemctl restart latchkey-agent). At SIGHUP it reads the keychain and its configuration again. Ctrl-C and SIGTERM
stop the agent after running calls finish. login, install and uninstall each have their own --help.`,
  flags: { ...flags, json: { doc: 'print events, one JSON object per line' } },
  options: ['secret-store', 'log-level', 'log-file', 'proxy', 'ca-file'],
  examples: [
    'latchkey agent login --server-url https://latchkey.example.com',
    'latchkey agent --server-url https://latchkey.example.com --config ./agent.json',
    'latchkey agent install --user --server-url https://latchkey.example.com --dry-run',
  ],
  async run(input, host) {
    await host.agent(agentPlan(input, host), host.options(input.options), {
      json: input.flags.has('json'),
    });
    return 0;
  },
};

/**
 * The server that an agent connects to, its configuration file and its key file. Paths are absolute.
 *
 * @throws {UsageError} if the server's URL is missing or invalid
 */
function agentPlan(
  { flags: entered, options: given }: CommandInput,
  host: Pick<CommandHost, 'platform' | 'home' | 'env' | 'options'>,
  command = 'latchkey agent',
): AgentPlan {
  const { env } = host;
  const config = entered.get('config')?.[0] ?? host.options(given).config;
  const keyFile = entered.get('key-file')?.[0] ?? (env['LATCHKEY_AGENT_KEY_FILE'] || undefined);
  return {
    base: usedBase(
      entered.get('server-url')?.[0] ?? (env['LATCHKEY_SERVER_URL'] || undefined),
      command,
    ),
    configurationFile: resolve(config ?? join(registryFile(host), '..', 'agent.json')),
    ...(keyFile !== undefined && { keyFile: resolve(keyFile) }),
  };
}

/** The server's URL. @throws {UsageError} if the URL is missing or invalid */
function usedBase(text: string | undefined, command: string): string {
  try {
    return serverBase(text, command);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    throw new UsageError(error.message, error.remedy, { cause: error });
  }
}

/** Runs `latchkey agent login`: reads the key from a hidden prompt or standard input, and stores it in the keychain. */
async function agentLogin(input: CommandInput, host: CommandHost): Promise<void> {
  const { base } = agentPlan(input, host, 'latchkey agent login');
  const store = await host.store(host.options(input.options));
  await checkKeyStore(store, base);
  const source = host.interactive ? 'the line that you entered' : 'standard input';
  const keySecret = checkAgentKey(await host.secret(`agent key for ${base}`), source);
  const replaced = (await store.get(agentKeyAccount(base))) !== undefined;
  await store.set(agentKeyAccount(base), keySecret);
  host.print(`stored the agent key for ${base}`);
  host.warn(
    replaced
      ? 'hint: a running agent uses the new key after SIGHUP, without losing a call'
      : `next: latchkey agent --server-url ${base} --config FILE`,
  );
}

const systemConfiguration = '/etc/latchkey/agent.json';

type ServiceHost = Pick<
  CommandHost,
  'platform' | 'home' | 'env' | 'launcher' | 'options' | 'print' | 'warn' | 'readText'
>;

/**
 * Runs `latchkey agent install` and `uninstall`.
 *
 * @throws {AgentError} `service`, for example if Latchkey did not create the file, which then stays as it is
 */
export async function agentService(
  what: 'install' | 'uninstall',
  input: CommandInput,
  host: ServiceHost,
): Promise<void> {
  const { platform, home, launcher } = host;
  if (platform === 'win32')
    throw new UsageError(
      'services are not supported on Windows yet',
      'start the agent with the Task Scheduler',
    );
  const user = input.flags.has('user');
  const runAs = readRunAs(input, platform);
  const options = host.options(input.options);
  const plan = what === 'install' ? agentPlan(input, host, 'latchkey agent install') : undefined;
  if (plan) await checkCertificates(options, host);
  const keyFile = plan?.keyFile;
  if (plan && !user && keyFile === undefined)
    throw new AgentError('service', 'a system service has no keychain', {
      remedy: 'name the file of the key with --key-file, or add --user for a user service',
    });
  if (keyFile !== undefined && !(await exists(keyFile))) throw missingKeyFile(keyFile);
  // A system service belongs to no person, so its default configuration is not in a home folder.
  const named = input.flags.has('config') || options.config !== undefined;
  const file = user || named ? plan?.configurationFile : systemConfiguration;
  const command = [
    ...('program' in launcher
      ? [stableProgram(launcher.program)]
      : [launcher.node, launcher.script]),
    'agent',
    ...(plan && file ? ['--server-url', plan.base, '--config', file] : []),
    ...(user && keyFile !== undefined ? ['--key-file', keyFile] : []),
    ...inheritedWords(input, options),
  ];
  const kind = platform === 'darwin' ? 'launchd' : 'systemd';
  const { path, text, next, newKey } = serviceFile({
    kind,
    user,
    home,
    command,
    base: plan?.base ?? '',
    ...(keyFile !== undefined && { keyFile }),
    ...(runAs !== undefined && { runAs }),
  });
  if (what === 'uninstall') return remove(path, kind, user, host);
  const missing = missingNetwork(plan ? [plan.base] : [], options, host, 'the service');
  for (const one of missing) host.warn(`note: ${one}`);
  if (input.flags.has('dry-run')) {
    host.warn(`${path}:`);
    for (const line of text.trimEnd().split('\n')) host.print(line);
    return;
  }
  const before = await existing(path);
  if (before !== undefined && !before.includes(serviceMark)) throw foreign(path);
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  } catch (error) {
    throw unwritable(path, error);
  }
  host.print(`written: ${path}`);
  const hint = npxHint(launcher, host);
  if (hint !== undefined) host.warn(`hint: ${hint}`);
  for (const line of next) host.warn(`next: ${line}`);
  if (kind === 'launchd' && !user && runAs === undefined)
    host.warn('hint: this service runs as root; to choose another account, add --run-as USER');
  if (newKey !== undefined) host.warn(`hint: ${newKey}`);
}

/** @throws {UsageError} */
function readRunAs({ flags: given }: CommandInput, platform: NodeJS.Platform): string | undefined {
  const [runAs] = given.get('run-as') ?? [];
  if (runAs === undefined) return undefined;
  if (platform !== 'darwin')
    throw new UsageError(
      '--run-as is only for macOS',
      'leave it out: the system service of systemd runs under an account of its own',
    );
  if (given.has('user'))
    throw new UsageError('a user service runs under your account', 'leave out --run-as or --user');
  if (!/^[a-z_][\w.-]*$/i.test(runAs))
    throw new UsageError(
      '--run-as is not the name of an account',
      'for example: --run-as _latchkey',
    );
  return runAs;
}

/** The options to pass to the service, because it does not inherit the environment of the shell that installs it. */
function inheritedWords({ options: given }: CommandInput, options: Options): string[] {
  const { logFile, proxy, caFile, clientCertificateFile, clientKeyFile } = options;
  const words = {
    'log-level': given['log-level'],
    'log-file': logFile && resolve(logFile),
    proxy: proxy === undefined || containsUser(proxy) ? undefined : proxy,
    'ca-file': caFile && resolve(caFile),
    'client-certificate-file': clientCertificateFile && resolve(clientCertificateFile),
    'client-key-file': clientKeyFile && resolve(clientKeyFile),
  };
  return Object.entries(words).flatMap(([name, value]) => (value ? [`--${name}`, value] : []));
}

/** Whether the file exists. Also `true` if this user may not look into its folder, because only root can tell then. */
async function exists(path: string): Promise<boolean> {
  const code = await stat(path).then(
    () => '',
    (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : ''),
  );
  return code !== 'ENOENT' && code !== 'ENOTDIR';
}

async function remove(
  path: string,
  kind: 'systemd' | 'launchd',
  user: boolean,
  host: ServiceHost,
): Promise<void> {
  const before = await existing(path);
  if (before === undefined) return host.print(`service not found: ${path}`);
  if (!before.includes(serviceMark)) throw foreign(path);
  await rm(path).catch((error: unknown) => {
    throw unwritable(path, error);
  });
  host.print(`removed: ${path}`);
  const manager = user ? 'systemctl --user' : 'systemctl';
  host.warn(
    kind === 'systemd'
      ? `next: ${manager} stop latchkey-agent, then ${manager} daemon-reload`
      : `next: launchctl bootout ${user ? 'gui/$(id -u)' : 'system'}/latchkey.agent`,
  );
}

async function existing(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw unwritable(path, error);
  });
}

function foreign(path: string): AgentError {
  return new AgentError('service', `${path} was not created by Latchkey`, {
    remedy: 'move the file away, then try again',
  });
}

function unwritable(path: string, cause: unknown): AgentError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason';
  return new AgentError('service', `${path} cannot be changed (${code})`, {
    remedy: code === 'EACCES' ? 'run the command as root, or add --user' : '',
    cause,
  });
}
