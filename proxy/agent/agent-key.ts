import { dirname } from 'node:path';
import type { SecretStore } from '#keychain/secret-store';
import { AgentError } from './agent-error.ts';

export type AgentKeyPorts = {
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
  store: () => Promise<SecretStore>;
  /** Its text and the bits of its mode; `undefined` when there is no such file. */
  readFile: (path: string) => Promise<{ text: string; mode: number } | undefined>;
};

const shape = /^pk_live_[0-9A-Za-z]{36}$/;

/** Where the keychain keeps the key for a server. */
export function agentKeyAccount(base: string): string {
  return `agent key ${JSON.stringify([base])}`;
}

/**
 * The agent's key, as it is now: from the file that was named, else from `LATCHKEY_AGENT_KEY`, else from the keychain.
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
  const kept = await (await store()).get(agentKeyAccount(base));
  if (kept !== undefined) return checkAgentKey(kept, 'the keychain');
  throw new AgentError('key', `there is no agent key for ${base}`, {
    remedy: `keep one: latchkey agent login --server-url ${base}; or name a file with --key-file`,
  });
}

/** How another key takes the place of one that is read from there. */
export function replaceAgentKey(keyFile: string | undefined, env: AgentKeyPorts['env']): string {
  if (keyFile === undefined) {
    return env['LATCHKEY_AGENT_KEY']
      ? 'make one in the dashboard and start again with it in LATCHKEY_AGENT_KEY'
      : 'make one in the dashboard and run latchkey agent login';
  }
  return isCredential(keyFile, env)
    ? 'make one in the dashboard, put it into the key file of the service, then: systemctl restart latchkey-agent'
    : `make one in the dashboard and put it into ${keyFile}`;
}

/** systemd hands it to this service alone, by an access list that its mode shows as a group. systemd.exec(5), Credentials */
function isCredential(path: string, env: AgentKeyPorts['env']): boolean {
  const folder = env['CREDENTIALS_DIRECTORY'];
  return folder !== undefined && dirname(path) === folder;
}

/** @throws {AgentError} `key` when it is none, without repeating it */
export function checkAgentKey(text: string, source: string): string {
  const secret = text.trim();
  if (shape.test(secret)) return secret;
  const other = /^(mcp|secret|rt|pat)_/.exec(secret)?.[1];
  const found = other === undefined ? 'no agent key' : `a key of another kind (${other}_…)`;
  throw new AgentError('key', `${source} holds ${found}`, {
    remedy: 'an agent key begins with pk_live_; the dashboard shows it once, under Agents',
  });
}

async function keyInFile(
  path: string,
  { env, platform, readFile }: AgentKeyPorts,
): Promise<string> {
  const file = await readFile(path);
  if (!file) throw new AgentError('key', `there is no key file ${path}`);
  // On Windows a mode says nothing about who may read.
  const foreign = isCredential(path, env) ? 0o007 : 0o077;
  if (platform !== 'win32' && (file.mode & foreign) !== 0)
    throw new AgentError('key', `${path} can be read by others than its owner`, {
      remedy: `make it yours alone: chmod 600 ${path}`,
    });
  return file.text;
}
