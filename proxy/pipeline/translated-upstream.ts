import { askedAssistant } from './asked-assistant.ts';
import { changeStream, type ChangeStream } from './change-stream.ts';
import { discover } from './discover.ts';
import { envelopeOf } from './envelope.ts';
import { initializeAnswer } from './initialize-answer.ts';
import { modernRequest } from './modern-request.ts';
import { translatedRequest } from './translated-request.ts';
import type { Clock } from '#clock/clock';
import { errorAnswer } from '#jsonrpc/answer';
import { readMessage, stringAt, textAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Log } from '#log/log';
import type { Upstream } from '#transport/upstream';

/** A modern server, to be spoken to as one of the older era. */
export interface TranslatedUpstream extends Upstream {
  /**
   * The answer to the assistant's `initialize`; `undefined` when the server does not speak the modern
   * era.
   *
   * @throws {UpstreamError} when the server could not be asked
   */
  meet(initialize: Message, signal: AbortSignal): Promise<Message | undefined>;
}

/** What the handshake left behind. */
type Met = { initialize: Message; subscribable: boolean; changes: ChangeStream };

/** RFC 5424 §6.2.1 */
const logLevels = new Set([
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]);

/** What an assistant says for the sake of its own era, and nobody there needs to hear. */
const unheard = new Set([
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/roots/list_changed',
]);

/**
 * Speaks MCP 2026-07-28 to `upstream` for an assistant that speaks up to 2025-11-25. What the assistant
 * said once, in its handshake, is said with every request; what the server needs from the assistant
 * comes as a result and is asked for as a request. Values that need no translation stay byte for byte.
 */
export function translatedUpstream(ports: {
  upstream: Upstream;
  clock: Clock;
  log: Log;
}): TranslatedUpstream {
  const { upstream, log } = ports;
  const assistant = askedAssistant();
  let met: Met | undefined;
  let logLevel: string | undefined;

  const envelope = () => (met ? envelopeOf(met.initialize, logLevel) : {});

  async function meet(initialize: Message, signal: AbortSignal): Promise<Message | undefined> {
    const said = await discover(upstream, envelopeOf(initialize), signal);
    if (!said) return undefined;
    const announces = (...path: string[]) =>
      textAt(said, 'result', 'capabilities', ...path) === 'true';
    const listed = ['tools', 'prompts', 'resources'].filter((kind) =>
      announces(kind, 'listChanged'),
    );
    const changes = changeStream(listed, envelope, ports);
    met = { initialize, subscribable: announces('resources', 'subscribe'), changes };
    logLevel = undefined;
    return initializeAnswer(initialize, said);
  }

  /** The answer to a request that has no counterpart in the modern era; `undefined` for any other. */
  async function answered(message: Message): Promise<Message | undefined> {
    const id = message.id ?? 'null';
    const done = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":{}}`));
    switch (message.method ?? '') {
      case 'ping':
        return done;
      case 'logging/setLevel': {
        const level = stringAt(message, 'params', 'level') ?? '';
        if (!logLevels.has(level))
          return errorAnswer(id, { code: -32602, message: 'no such log level' });
        logLevel = level;
        return done;
      }
      case 'resources/subscribe': {
        const uri = stringAt(message, 'params', 'uri');
        if (uri === undefined) return errorAnswer(id, { code: -32602, message: 'uri is missing' });
        if (met?.subscribable && (await met.changes.subscribe(uri))) return done;
        return errorAnswer(id, {
          code: -32601,
          message: `the server does not tell when ${uri} changes`,
        });
      }
      case 'resources/unsubscribe':
        met?.changes.unsubscribe(stringAt(message, 'params', 'uri') ?? '');
        return done;
      default:
        return undefined;
    }
  }

  return {
    meet,
    async send(message, deliver, signal) {
      if (!met || modernVersion(message) !== undefined)
        return upstream.send(message, deliver, signal);
      if (message.kind === 'response') {
        if (!assistant.take(message)) log.debug('answer dropped', { id: message.id });
        return undefined;
      }
      if (message.kind === 'notification') {
        if (unheard.has(message.method ?? '')) return undefined;
        return upstream.send(modernRequest(message, envelope()), deliver, signal);
      }
      const answer = await answered(message);
      if (answer) return deliver(answer);
      const { initialize } = met;
      return translatedRequest(message, {
        ...ports,
        assistant,
        initialize,
        envelope: envelope(),
        deliver,
        signal,
      });
    },
    listen: async (deliver, signal) => met?.changes.follow(deliver, signal),
    close: async (signal) => upstream.close(signal),
  };
}
