import { z } from 'zod';

import type { ConsoleAnswer } from './call-server.ts';

const answerSchema = z.union([
  z.object({ result: z.record(z.string(), z.unknown()) }),
  z.object({ error: z.object({ code: z.number(), message: z.string() }) }),
]);

/** The result of a call, or a sentence that says why there is none. */
export type AnswerResult =
  | { readonly outcome: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly outcome: 'error'; readonly message: string };

/** Reads an answer of the gateway. */
export function answerResult(answer: ConsoleAnswer): AnswerResult {
  switch (answer.outcome) {
    case 'late':
      return error('There was no answer within 30 seconds. The call may still be running.');
    case 'too-large':
      return error('The answer is larger than 1 MiB, too large to be shown here.');
    case 'broken':
      return error('The answer broke off.');
    case 'answered':
      return parsed(answer.text);
  }
}

function parsed(text: string): AnswerResult {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return error('The answer is not JSON.');
  }
  const { data } = answerSchema.safeParse(value);
  if (!data) return error('The answer is not a JSON-RPC response.');
  if ('result' in data) return { outcome: 'result', result: data.result };
  return error(`The server answered with error ${data.error.code}: ${data.error.message}`);
}

function error(message: string): AnswerResult {
  return { outcome: 'error', message };
}
