import { dirname } from 'node:path';
import { checkStore, SecretStoreError, type SecretStore } from '#keychain/secret-store';
import { webUrl } from '#transport/web-url';

/**
 * An agent cannot start or be installed. `key`: its key is missing, invalid or cannot be stored. `server`: the server's
 * URL is missing or invalid. `service`: the service file cannot be written or removed.
 */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: 'key' | 'server' | 'service';
  readonly remedy: string;

  constructor(
    code: AgentError['code'],
    message: string,
    { remedy = '', ...options }: ErrorOptions & { remedy?: string } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
  }
}

/**
 * The server's public URL, without a trailing slash: https, or http on a loopback host.
 *
 * @throws {AgentError} `server`
 */
export function serverBase(text: string | undefined, command = 'latchkey agent'): string {
  if (text === undefined)
    throw new AgentError('server', '--server-url is missing', {
      remedy: `add it: ${command} --server-url https://latchkey.example.com`,
    });
  const url = webUrl(text);
  if (!url || url.search || url.hash)
    throw new AgentError('server', '--server-url is not an https URL', {
      remedy: 'http is allowed only for this computer, for example http://127.0.0.1:8787',
    });
  const endpoint = /^(.*?)\/mcp\//.exec(url.href)?.[1];
  if (endpoint !== undefined)
    throw new AgentError('server', '--server-url is the address of one MCP server', {
      remedy: `give the address of Latchkey without that path: --server-url ${endpoint}`,
    });
  return url.href.replace(/\/+$/, '');
}

/** The URL that agents connect to. `docs/tunnel.md`, "Connecting" */
export function tunnelUrl(base: string): URL {
  return new URL(`${base.replace(/^http/, 'ws')}/api/agents/connect`);
}

export type AgentKeyPorts = {
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
  store: () => Promise<SecretStore>;
  /** The file's text and mode bits; `undefined` if there is no such file. */
  readFile: (path: string) => Promise<{ text: string; mode: number } | undefined>;
};

const shape = /^pk_live_[0-9A-Za-z]{36}$/;

/**
 * Checks that the key can be stored, before the user types it.
 *
 * @throws {AgentError} `key`, if no secret store is available
 */
export async function checkKeyStore(store: SecretStore, base: string): Promise<void> {
  try {
    await checkStore(store);
  } catch (error) {
    if (!(error instanceof SecretStoreError) || error.code !== 'unavailable') throw error;
    throw new AgentError('key', `the key cannot be stored: ${error.message}`, {
      remedy: `put the key into a file that only you can read, then: latchkey agent --server-url ${base} --key-file FILE`,
      cause: error,
    });
  }
}

/** The keychain account that holds the key for a server. */
export function agentKeyAccount(base: string): string {
  return `agent key ${JSON.stringify([base])}`;
}

/**
 * The agent's current key: from `keyFile` if given, else from `LATCHKEY_AGENT_KEY`, else from the keychain.
 *
 * @throws {AgentError} `key`
 */
export async function readAgentKey(
  base: string,
  keyFile: string | undefined,
  ports: AgentKeyPorts,
): Promise<string> {
  const { env, store } = ports;
  if (keyFile !== undefined) return checkAgentKey(await keyInFile(keyFile, ports), keyFile);
  const given = env['LATCHKEY_AGENT_KEY'];
  if (given) return checkAgentKey(given, 'LATCHKEY_AGENT_KEY');
  const stored = await (await store()).get(agentKeyAccount(base));
  if (stored !== undefined) return checkAgentKey(stored, 'the keychain');
  throw new AgentError('key', `no agent key for ${base} in the keychain`, {
    remedy: `save one with latchkey agent login --server-url ${base}, or name a file with --key-file`,
  });
}

/** How to replace the key, depending on where it is read from. */
export function replaceAgentKey(keyFile: string | undefined, env: AgentKeyPorts['env']): string {
  if (keyFile === undefined) {
    return env['LATCHKEY_AGENT_KEY']
      ? 'create a key in the dashboard and restart with it in LATCHKEY_AGENT_KEY'
      : 'create a key in the dashboard and run latchkey agent login';
  }
  return isCredential(keyFile, env)
    ? 'create a key in the dashboard, put it into the key file of the service, then: systemctl restart latchkey-agent'
    : `create a key in the dashboard and put it into ${keyFile}`;
}

/**
 * Whether systemd passed the key file as a credential. Only the service can read such a file, although its mode may include
 * group permissions, which reflect an access list. systemd.exec(5), "Credentials"
 */
function isCredential(path: string, env: AgentKeyPorts['env']): boolean {
  const folder = env['CREDENTIALS_DIRECTORY'];
  return folder !== undefined && dirname(path) === folder;
}

/**
 * Returns the key without surrounding white space.
 *
 * @throws {AgentError} `key`, if it is not an agent key; the message does not contain it
 */
export function checkAgentKey(text: string, source: string): string {
  const secret = text.trim();
  if (shape.test(secret)) return secret;
  if (secret.startsWith('pk_live_'))
    throw new AgentError('key', `${source} does not contain a complete agent key`, {
      remedy: 'copy the key again; an agent key has 36 letters and digits after pk_live_',
    });
  const other = /^(mcp|secret|rt|pat)_/.exec(secret)?.[1];
  const found = other === undefined ? 'no agent key' : `a key of another kind (${other}_…)`;
  throw new AgentError('key', `${source} contains ${found}`, {
    remedy: 'an agent key begins with pk_live_; the dashboard shows it once, under Agents',
  });
}

export function missingKeyFile(path: string): AgentError {
  return new AgentError('key', `the key file ${path} does not exist`, {
    remedy: `put the agent key from the dashboard into it, then: chmod 600 ${path}`,
  });
}

async function keyInFile(
  path: string,
  { env, platform, readFile }: AgentKeyPorts,
): Promise<string> {
  const file = await readFile(path);
  if (!file) throw missingKeyFile(path);
  // On Windows, the mode does not show who may read the file.
  const foreign = isCredential(path, env) ? 0o007 : 0o077;
  if (platform !== 'win32' && (file.mode & foreign) !== 0)
    throw new AgentError('key', `${path} can be read by other users`, {
      remedy: `restrict it to its owner: chmod 600 ${path}`,
    });
  return file.text;
}
