import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import type { AskedCaller } from './asked-caller.ts';
import type { ClientWords } from './envelope.ts';
import { legacyResult } from './legacy-result.ts';
import { stringAt, textAt, type Message } from './message.ts';
import { modernPost, modernRequest } from './modern-request.ts';
import { neededInput, type NeededInput } from './needed-input.ts';
import { errorTo } from './responses.ts';
import { carriesMessages, said } from './said.ts';

const mostRounds = 10;
const pauseMs = 250;

/** The capability without which a caller is not asked. */
const capabilityOf: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

export interface TranslatedCallPorts {
  readonly upstream: Upstream;
  readonly client: ClientWords;
  readonly caller: AskedCaller;
  readonly signal: AbortSignal;
  /** Of the caller's request. */
  readonly headers: UpstreamRequest['headers'];
}

/**
 * What a modern upstream says to a request of the older era, in the words of that era, from its first
 * `answer` on: what it needs is asked of the caller, and the request sent again with the responses, until it
 * is answered.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 *
 * @throws {UpstreamError}
 */
export async function* translatedCall(
  request: Message,
  answer: UpstreamAnswer,
  { upstream, client, caller, signal, headers }: TranslatedCallPorts,
): AsyncGenerator<Message> {
  const { id = 'null', method = '' } = request.envelope;
  const failed = (problem: string) => errorTo(id, -32603, problem);
  let current = answer;
  for (let round = 1; ; round++) {
    let needed: NeededInput | undefined;
    for await (const message of said(current)) {
      if (message.envelope.kind === 'notification') yield message;
      if (message.envelope.kind !== 'response') continue;
      needed = neededInput(message);
      if (!needed) return yield legacyResult(message, method, id);
      break;
    }
    if (!needed) return yield failed('the MCP server ended its answer before the result');
    if (round > mostRounds) return yield failed(`the MCP server needs input again and again`);
    const beyond = needed.requests.find((asked) => !isAble(client, asked.method));
    if (beyond) return yield failed(`the MCP server needs ${beyond.method.slice(0, 60)} of you`);
    const questions = needed.requests.map(({ method: name, params }) =>
      caller.ask(name, legacyParams(params), signal),
    );
    for (const question of questions) yield question.request;
    const given = await Promise.all(questions.map(({ response }) => response));
    const unanswered = given.find((response) => textAt(response, 'result') === undefined);
    if (unanswered) {
      const why = stringAt(unanswered, 'error', 'message') ?? '';
      return yield failed(`what the MCP server needs was not answered: ${why.slice(0, 200)}`);
    }
    if (questions.length === 0) await pause(pauseMs, undefined, { signal });
    const sent = modernRequest(request, client, {
      id: JSON.stringify(randomUUID()),
      params: again(needed, given),
    });
    current = await upstream.send(modernPost(sent, signal, headers));
    if (!carriesMessages(current)) return yield failed('the MCP server gave no answer');
  }
}

function isAble({ capabilities }: ClientWords, method: string): boolean {
  const can: object = JSON.parse(capabilities);
  return Object.hasOwn(capabilityOf, method) && Object.hasOwn(can, capabilityOf[method] ?? '');
}

function again({ requests, requestState }: NeededInput, given: readonly Message[]) {
  const responses = requests.map(
    ({ key }, n) => `${JSON.stringify(key)}:${given[n] && textAt(given[n], 'result')}`,
  );
  return {
    ...(requests.length > 0 && { inputResponses: `{${responses.join(',')}}` }),
    ...(requestState !== undefined && { requestState }),
  };
}

/** Before 2026-07-28 a page that a person is sent to has an id. MCP 2025-11-25 elicitation */
function legacyParams(json: string): string {
  const params: Record<string, unknown> = JSON.parse(json);
  const isPage = params['mode'] === 'url' && params['elicitationId'] === undefined;
  return isPage ? JSON.stringify({ ...params, elicitationId: randomUUID() }) : json;
}
