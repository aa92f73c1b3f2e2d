import { newKeyCommands } from '#key-file-commands';
import { logLevels, type LogLevel } from '#log/log';
import { UsageError } from './errors.ts';

/** Whether the proxy may open the browser on its own. */
const signInModes = ['auto', 'always', 'never'] as const;
export type SignInMode = (typeof signInModes)[number];

type Declaration = {
  env: string;
  /** The placeholder of the value in the help. */
  value: string;
  fallback?: string;
  doc: string;
  /** Its former names, which continue to work. */
  formerly?: { option: string; env: string };
};

/** Every option, declared once: the command line, the environment and the help derive from this table. */
export const declarations = {
  config: {
    env: 'LATCHKEY_CONFIG',
    value: 'FILE',
    doc: 'look up NAME in this file instead of the assistants’ files',
  },
  'secret-store': {
    env: 'LATCHKEY_SECRET_STORE',
    value: 'os|file|memory',
    fallback: 'os',
    doc: 'where to store tokens',
  },
  'secret-store-key-file': {
    env: 'LATCHKEY_SECRET_STORE_KEY_FILE',
    value: 'FILE',
    doc: 'the file of the key for --secret-store file',
  },
  'state-dir': {
    env: 'LATCHKEY_STATE_DIR',
    value: 'DIR',
    doc: 'the directory of locks and the file store',
  },
  'log-level': {
    env: 'LATCHKEY_LOG_LEVEL',
    value: logLevels.join('|'),
    fallback: 'warn',
    doc: 'how much to log to stderr, as JSON lines',
  },
  'log-file': {
    env: 'LATCHKEY_LOG_FILE',
    value: 'FILE',
    doc: 'also append the log to this file, readable only by its owner',
  },
  'sign-in': {
    env: 'LATCHKEY_SIGN_IN',
    value: signInModes.join('|'),
    fallback: 'auto',
    doc: 'when to open the browser for a sign-in: at first use, whenever needed, never',
  },
  'max-message-bytes': {
    env: 'LATCHKEY_MAX_MESSAGE_BYTES',
    value: 'BYTES',
    fallback: String(64 * 1024 * 1024),
    doc: 'the maximum message size, in both directions',
  },
  'idle-timeout': {
    env: 'LATCHKEY_IDLE_TIMEOUT',
    value: 'SECONDS',
    fallback: '300',
    doc: 'cancel a request if the server sends nothing for this long, not even progress; 0: never',
    formerly: { option: 'patience', env: 'LATCHKEY_PATIENCE' },
  },
  proxy: {
    env: 'LATCHKEY_PROXY',
    value: 'URL|none',
    doc: 'use this HTTP proxy instead of HTTPS_PROXY; NO_PROXY still applies',
  },
  'ca-file': {
    env: 'LATCHKEY_CA_FILE',
    value: 'FILE',
    doc: 'additional certificate authorities to trust, PEM',
  },
  'client-certificate-file': {
    env: 'LATCHKEY_CLIENT_CERTIFICATE_FILE',
    value: 'FILE',
    doc: 'the client certificate for servers that require one (mutual TLS), PEM',
  },
  'client-key-file': {
    env: 'LATCHKEY_CLIENT_KEY_FILE',
    value: 'FILE',
    doc: 'the private key of the client certificate, PEM',
  },
} satisfies Record<string, Declaration>;

export type OptionName = keyof typeof declarations;
export const optionNames = Object.keys(declarations).filter(isOptionName);

/** Every name of an option on the command line, without its dashes. */
export const optionWords = optionNames.flatMap((name) => {
  const { formerly }: Declaration = declarations[name];
  return formerly ? [name, formerly.option] : [name];
});

/** The option that is written like this on the command line: `--idle-timeout`, or `--patience`, its former name. */
export function optionCalled(word: string): OptionName | undefined {
  return optionNames.find((name) => {
    const { formerly }: Declaration = declarations[name];
    return word === `--${name}` || word === `--${formerly?.option ?? name}`;
  });
}

export type OptionTexts = Partial<Record<OptionName, string>>;

export type Options = {
  config?: string;
  secretStore: 'os' | 'file' | 'memory';
  /** `os` was set explicitly as the secret store: without a keychain, tokens are not kept in memory instead. */
  requiresKeychain?: boolean;
  secretStoreKeyFile?: string;
  stateDir?: string;
  signIn: SignInMode;
  logLevel: LogLevel;
  logFile?: string;
  maxMessageBytes: number;
  /** 0: no timeout. */
  idleTimeoutSeconds: number;
} & NetworkOptions;

/** The same names as in `#transport/network-settings`. */
type NetworkOptions = {
  proxy?: string;
  caFile?: string;
  clientCertificateFile?: string;
  clientKeyFile?: string;
};

/**
 * The options of one run: from the command line, otherwise from the environment, otherwise the default.
 *
 * @throws {UsageError}
 */
export function readOptions(given: OptionTexts, env: NodeJS.ProcessEnv): Options {
  const text = (name: OptionName) => {
    const declaration: Declaration = declarations[name];
    const { formerly } = declaration;
    const before = formerly && env[formerly.env];
    return given[name] ?? (env[declaration.env] || before || declaration.fallback);
  };
  const isChosen = (name: OptionName) =>
    given[name] !== undefined || Boolean(env[declarations[name].env]);
  const choice = <T extends string>(name: OptionName, choices: readonly T[]): T => {
    const value = text(name);
    const chosen = choices.find((one) => one === value);
    if (chosen === undefined)
      throw new UsageError(`--${name} must be one of ${choices.join(', ')}`);
    return chosen;
  };
  const maxMessageBytes = Number(text('max-message-bytes'));
  if (!Number.isSafeInteger(maxMessageBytes) || maxMessageBytes < 1_024)
    throw new UsageError('--max-message-bytes must be a number of at least 1024');
  const idleTimeoutSeconds = Number(text('idle-timeout'));
  if (
    !Number.isSafeInteger(idleTimeoutSeconds) ||
    idleTimeoutSeconds < 0 ||
    idleTimeoutSeconds > 86_400
  )
    throw new UsageError('--idle-timeout must be a number of seconds up to one day, or 0');
  const config = text('config');
  const stateDir = text('state-dir');
  const secretStoreKeyFile = text('secret-store-key-file');
  const logFile = text('log-file');
  const secretStore = choice('secret-store', ['os', 'file', 'memory']);
  if (secretStore === 'file' && secretStoreKeyFile === undefined)
    throw new UsageError(
      '--secret-store file requires LATCHKEY_SECRET_STORE_KEY_FILE',
      `name your key file; without one yet: ${newKeyCommands}`,
    );
  return {
    ...(config !== undefined && { config }),
    ...(stateDir !== undefined && { stateDir }),
    ...(secretStoreKeyFile !== undefined && { secretStoreKeyFile }),
    ...(logFile !== undefined && { logFile }),
    secretStore,
    ...(secretStore === 'os' && isChosen('secret-store') && { requiresKeychain: true }),
    signIn: choice('sign-in', signInModes),
    logLevel: choice('log-level', logLevels),
    maxMessageBytes,
    idleTimeoutSeconds,
    ...networkOptions(given, text),
  };
}

function networkOptions(
  given: OptionTexts,
  text: (name: OptionName) => string | undefined,
): NetworkOptions {
  if (given.proxy !== undefined && /@/.test(given.proxy))
    throw new UsageError(
      '--proxy must not contain a user and a password, because every program can read arguments',
      'set LATCHKEY_PROXY instead',
    );
  const proxy = text('proxy');
  const caFile = text('ca-file');
  const clientCertificateFile = text('client-certificate-file');
  const clientKeyFile = text('client-key-file');
  if ((clientCertificateFile === undefined) !== (clientKeyFile === undefined))
    throw new UsageError('--client-certificate-file and --client-key-file must be set together');
  return {
    ...(proxy !== undefined && { proxy }),
    ...(caFile !== undefined && { caFile }),
    ...(clientCertificateFile !== undefined && { clientCertificateFile }),
    ...(clientKeyFile !== undefined && { clientKeyFile }),
  };
}

function isOptionName(name: string): name is OptionName {
  return name in declarations;
}

/**
 * `env` for another program that we start, such as a browser: without our own variables, which may contain client secrets, API
 * keys and passphrases. Windows ignores the case of their names.
 */
export function helperEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  const others = Object.entries(env).filter(([name]) => !/^latchkey_/i.test(name));
  return Object.fromEntries(others);
}
