import { z } from 'zod';

import type { ConsoleAnswer } from './call-server.ts';

const answerSchema = z.union([
  z.object({ result: z.record(z.string(), z.unknown()) }),
  z.object({ error: z.object({ code: z.number(), message: z.string() }) }),
]);

/** Why there is no result. */
export interface AnswerError {
  readonly outcome: 'error';
  /** A sentence. */
  readonly message: string;
  /** Of the JSON-RPC error that says so, where one does. JSON-RPC 2.0 §5.1 */
  readonly code?: number;
}

/** The result of a call, or why there is none. */
export type AnswerResult =
  | { readonly outcome: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | AnswerError;

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
  const { code, message } = data.error;
  return { ...error(sentence(message)), code };
}

function error(message: string): AnswerError {
  return { outcome: 'error', message };
}

/** What the gateway or the MCP server says, as one: they begin small and end without a period, or say nothing. */
function sentence(said: string): string {
  const text = said.trim();
  if (text === '') return 'The server answered with an error, and says no more.';
  const begun = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
