import type { AskedAssistant } from './asked-assistant.ts';
import type { NeededInput } from './needed-input.ts';
import { stringAt, textAt, type Message } from '#jsonrpc/message';
import type { Deliver } from '#transport/upstream';

/** What the assistant answered, as the JSON text of `inputResponses`, or why it cannot be had. */
export type GivenInput = { json: string } | { problem: string };

/** The capability without which an assistant is not asked. */
const capabilityOf: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/**
 * Asks the assistant, which said in `initialize` what it can do, for all that a server needs at once.
 * When one request fails the others are withdrawn.
 *
 * MCP 2026-07-28 multi round-trip requests
 *
 * @throws {UpstreamError} `aborted`
 */
export async function givenInput(
  { requests }: NeededInput,
  initialize: Message,
  {
    assistant,
    deliver,
    signal,
  }: { assistant: AskedAssistant; deliver: Deliver; signal: AbortSignal },
): Promise<GivenInput> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const able = ({ method }: { method: string }) =>
    Object.hasOwn(capabilityOf, method) &&
    textAt(initialize, 'params', 'capabilities', capabilityOf[method] ?? '') !== undefined;
  const beyond = requests.find((request) => !able(request));
  if (beyond)
    return { problem: `the server needs ${beyond.method}, which the assistant does not offer` };
  try {
    const given = await Promise.all(
      requests.map(async ({ key, ...request }) => {
        const answer = await assistant.ask(request, deliver, either);
        const result = textAt(answer, 'result');
        const why = stringAt(answer, 'error', 'message') ?? '';
        if (result === undefined)
          throw new Unanswered(`the assistant did not answer ${request.method}: ${why}`);
        return `${JSON.stringify(key)}:${result}`;
      }),
    );
    return { json: `{${given.join(',')}}` };
  } catch (error) {
    if (error instanceof Unanswered) return { problem: error.message };
    throw error;
  } finally {
    over.abort();
  }
}

class Unanswered extends Error {
  override readonly name = 'Unanswered';
}
