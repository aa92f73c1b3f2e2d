import { randomUUID } from 'node:crypto';
import type { AskedAssistant } from './asked-assistant.ts';
import type { Envelope } from './envelope.ts';
import { givenInput } from './given-input.ts';
import { legacyAnswer } from './legacy-answer.ts';
import { modernRequest } from './modern-request.ts';
import { neededInput, type NeededInput } from './needed-input.ts';
import type { Clock } from '#clock/clock';
import { answerTo, errorAnswer } from '#jsonrpc/answer';
import type { Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';

export type TranslatedRequestPorts = {
  upstream: Upstream;
  assistant: AskedAssistant;
  /** The assistant's handshake. */
  initialize: Message;
  envelope: Envelope;
  clock: Clock;
  log: Log;
  deliver: Deliver;
  signal: AbortSignal;
};

const mostRounds = 10;
const pauseMs = 250;

/**
 * Sends a request of the older era to a modern server, and again under another id with what the server
 * needs from the assistant, until it is answered; delivers that answer.
 *
 * MCP 2026-07-28 multi round-trip requests
 *
 * @throws {UpstreamError}
 */
export async function translatedRequest(
  message: Message,
  ports: TranslatedRequestPorts,
): Promise<void> {
  const { envelope, initialize, clock, deliver, signal } = ports;
  const fail = async (problem: string) =>
    deliver(errorAnswer(message.id ?? 'null', { code: -32603, message: problem }));
  let sent = modernRequest(message, envelope);
  for (let round = 0; ; round += 1) {
    const needed = await once(sent, message, ports);
    if (!needed) return;
    if (round >= mostRounds)
      return fail(`the server still needed input after ${mostRounds} rounds`);
    const given = await givenInput(needed, initialize, ports);
    if ('problem' in given) return fail(given.problem);
    const asked = needed.requests.length > 0;
    if (!asked) await clock.sleep(pauseMs, signal);
    const { requestState } = needed;
    sent = modernRequest(message, envelope, {
      id: JSON.stringify(`latchkey-${randomUUID()}`),
      params: {
        ...(asked && { inputResponses: given.json }),
        ...(requestState !== undefined && { requestState }),
      },
    });
  }
}

/** One round; what the server needs for another one. */
async function once(
  sent: Message,
  { id, method }: Message,
  { upstream, log, deliver, signal }: TranslatedRequestPorts,
): Promise<NeededInput | undefined> {
  let needed: NeededInput | undefined;
  const enough = new AbortController();
  const take: Deliver = async (said) => {
    if (said.kind === 'request') return log.warn('request dropped', { what: said.method });
    if (said.kind === 'notification') return deliver(said);
    needed = neededInput(said);
    // A server that leaves the stream open behind it does not hold up the next round.
    if (needed) return enough.abort();
    await deliver(answerTo(id ?? 'null', legacyAnswer(said, method)));
  };
  try {
    await upstream.send(sent, take, AbortSignal.any([signal, enough.signal]));
  } catch (error) {
    if (!needed) throw error;
  }
  return needed;
}
