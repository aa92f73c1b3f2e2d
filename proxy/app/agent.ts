import { randomUUID } from 'node:crypto';
import { open as openFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { readAgentConfiguration } from '#agent/agent-configuration';
import { readAgentKey, replaceAgentKey, AgentError, tunnelUrl } from '#agent/agent-key';
import { agentStatus, type StatusForm } from '#agent/agent-status';
import { dialWebSocket } from '#agent/dial-web-socket';
import { keyInUse } from '#agent/keep-tunnel';
import { localServers, type LocalServer, type LocalServerSettings } from '#agent/local-servers';
import { runAgent } from '#agent/run-agent';
import { TunnelError } from '#agent/tunnel';
import type { AgentPlan } from '#cli/command-host';
import type { Options } from '#config/options';
import type { Host } from '#host';
import { SecretStoreError, type SecretStore } from '#keychain/secret-store';
import { jsonLinesLog } from '#log/log';
import type { NetworkSettings } from '#transport/network-settings';
import type { Tracing } from 'latchkey-mcp/tracing';
import { programVersion } from '#version';
import { openTracing } from './tracing.ts';

/** The parts of the process that an agent uses. */
export type AgentPorts = Pick<Host, 'platform' | 'env' | 'clock' | 'writeLog'> & {
  /** The path of Node. */
  node: string;
  /** The command line that starts the guard of children. Required if `node` is not plain Node. */
  guard?: readonly [string, ...string[]];
  form: StatusForm;
  write: (text: string) => void;
  readText: (path: string) => string | undefined;
  store: () => Promise<SecretStore>;
  stop: AbortSignal;
  onReload: (reload: () => void) => void;
};

/** Opens an agent, and runs it until `stop` aborts. */
export async function openAgent(
  { base, configurationFile, keyFile }: AgentPlan,
  { logLevel, maxMessageBytes }: Options,
  network: NetworkSettings,
  host: AgentPorts,
): Promise<void> {
  const { env, platform, clock, form, write, writeLog, readText, store } = host;
  const log = jsonLinesLog(logLevel, writeLog);
  const keyPorts = { env, platform, store, readFile: readWithMode };
  // At the start, a missing key ends the agent. Later the agent tries again, because a new key may not be written yet.
  await readAgentKey(base, keyFile, keyPorts);
  const version = await programVersion();
  const readKeySecret = async () => {
    try {
      return await readAgentKey(base, keyFile, keyPorts);
    } catch (error) {
      if (error instanceof SecretStoreError)
        throw new TunnelError('unreadable', error.message, {
          remedy: 'unlock the keychain, or name a file with --key-file',
          cause: error,
        });
      if (!(error instanceof AgentError)) throw error;
      throw new TunnelError('unreadable', error.message, { remedy: error.remedy, cause: error });
    }
  };
  const key = keyInUse(readKeySecret);
  const tracing = await openTracing(env, 'latchkey-agent', log);
  const openLocal = localServers({ ...host, log, maxMessageBytes });
  const running = runAgent(
    {
      base,
      version,
      instance: randomUUID(),
      dial: dialWebSocket({
        url: tunnelUrl(base),
        readKeySecret: key.read,
        settings: network,
        newKey: replaceAgentKey(keyFile, env),
      }),
      key,
      watchesKey: keyFile !== undefined,
      open: (settings) => {
        const server = openLocal(settings);
        return tracing ? tracedServer(server, settings.kind, tracing) : server;
      },
      readConfiguration: () => readAgentConfiguration(configurationFile, { env, readText }),
      onReload: host.onReload,
      network: addresses,
      random: Math.random,
      status: agentStatus(form, write, () => clock.now()),
      clock,
      log,
      maxMessageBytes,
    },
    host.stop,
  );
  try {
    await running;
  } finally {
    await tracing?.close();
  }
}

/** A local server with a span for each call that reaches it. The server gets the headers that continue the trace. */
function tracedServer(
  server: LocalServer,
  kind: LocalServerSettings['kind'],
  tracing: Tracing,
): LocalServer {
  const attributes = {
    'latchkey.upstream.kind': kind,
    'network.transport': kind === 'http' ? 'tcp' : 'pipe',
  };
  return {
    ...server,
    send: (request) =>
      tracing.within(`${request.method} to local server (${kind})`, attributes, request, (traced) =>
        server.send(traced),
      ),
  };
}

/** The addresses of this host. They change when a cable is pulled, or when the host joins a network or a VPN. */
function addresses(): string {
  return Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ internal }) => !internal)
    .map(({ cidr }) => cidr)
    .join();
}

/** Reads text and mode of the same file, even if it is replaced meanwhile. */
async function readWithMode(path: string): Promise<{ text: string; mode: number } | undefined> {
  const file = await openFile(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new AgentError('key', `${path} cannot be read (${String(Object(error).code)})`);
  });
  if (!file) return undefined;
  try {
    return { text: await file.readFile('utf8'), mode: (await file.stat()).mode };
  } finally {
    await file.close();
  }
}
