import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Host, UserHost } from '#host';
import type { Log } from '#log/log';
import type { Credential } from '#transport/credential';
import { streamableHttp } from '#transport/streamable-http';
import type { Upstream } from '#transport/upstream';
import type { Message } from 'latchkey-mcp/raw-message';
import type { Tracing } from 'latchkey-mcp/tracing';
import { openAcceptedTools } from './accepted-tools.ts';
import { openCachedAnswers, question } from './cached-answers.ts';
import type { Presence, Trouble } from './contact.ts';
import { detectServer, openRememberedServer } from './detect-server.ts';
import { idleTimeout } from './idle-timeout.ts';
import { OfflineCache, redactedServer } from './offline-cache.ts';
import type { PersonSignIn } from './sign-in-page.ts';
import { compose, type Step } from './step.ts';
import { toolFilter } from './tool-filter.ts';
import { ToolHeaders } from './tool-headers.ts';

export type PipelinePorts = {
  host: Pick<Host, keyof UserHost | 'clock' | 'http'>;
  log: Log;
  tracing?: Tracing | undefined;
  credential: Credential;
  /** Distinguishes the accounts that use a server. */
  account: string;
  /** How a person signs in, where the connection requires it. */
  signInService?: PersonSignIn | undefined;
  /** The kind of trouble that an error indicates; `undefined` if the server is not the cause. */
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  /** Describes a failure, with its remedy. */
  explain: (error: unknown) => string;
  status: Presence;
  /** Reports each request and its end to `status`, and answers other programs that contact this proxy. */
  observe: (cache: OfflineCache) => Step;
};

/**
 * The steps through which an assistant's message passes on its way to the server of `connection`, in this order. Answers pass
 * through them in the opposite order. The bridge (`bridge.ts`) reads and writes the lines before them.
 */
export function pipelineSteps(
  connection: Connection,
  options: Options,
  ports: PipelinePorts,
): { steps: readonly Step[]; transport: Upstream } {
  const { host, log, tracing, credential, account, signInService, explain, troubleOf, status } =
    ports;
  const { clock, http } = host;
  const { maxMessageBytes, idleTimeoutSeconds } = options;
  const url = new URL(connection.url);
  const remembered = openRememberedServer(connection.url, options, host);
  const answers = openCachedAnswers({ url: connection.url, account }, options, host);
  const cacheOptions = {
    ...redactedServer(connection),
    ...(signInService && { signInService }),
    presence: status,
  };
  const cache = new OfflineCache({ ...cacheOptions, answers, troubleOf, explain, clock, log });
  const tools = new ToolHeaders(log);
  const hasCachedAnswer = async (message: Message) =>
    message.method === 'initialize' &&
    (await answers.read(question(message, message))) !== undefined;
  const transportOptions = { url, credential, http, clock, log, maxMessageBytes, hasCachedAnswer };
  const { transport = 'http-first' } = connection;

  const steps = [
    ports.observe(cache),
    // Before the cache, so that no list and no call bypasses the filter.
    toolFilter({ ...toolRules(connection, options, host), clock, log }),
    cache,
    idleTimeout({
      idleTimeoutSeconds,
      isSigningIn: () => signInService?.page() !== undefined,
      clock,
      log,
    }),
    detectServer(transport, {
      sse: async () => (await import('#transport/http-sse')).httpSse(transportOptions),
      async translated(upstream) {
        const { translatedUpstream } = await import('./translated-server.ts');
        return translatedUpstream({ upstream, clock, log });
      },
      memory: remembered,
      log,
    }),
    tools,
  ];
  return {
    steps,
    transport: streamableHttp({
      ...transportOptions,
      tracing,
      toolHeaders: (message) => tools.headers(message),
    }),
  };
}

/** The server of `connection` behind all steps. */
export function openPipeline(...parts: Parameters<typeof pipelineSteps>): Upstream {
  const { steps, transport } = pipelineSteps(...parts);
  return compose(steps, transport);
}

function toolRules(connection: Connection, options: Options, host: UserHost) {
  const { name, url, configFile, allowTools, denyTools, changedTools = 'flag' } = connection;
  return {
    rules: { allow: allowTools, deny: denyTools },
    changed: changedTools,
    store: openAcceptedTools(url, options, host),
    remedy: `latchkey tools ${name}${configFile === undefined ? '' : ` --config ${configFile}`}`,
  };
}
