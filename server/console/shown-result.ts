import { z } from 'zod';

import { laidOutJson } from '#gateway/laid-out-json';
import type { AnswerResult } from './answer-result.ts';

const mostCharacters = 20_000;
const mostParts = 20;

/** One part of a result, fit to be shown. */
export interface ResultPart {
  readonly title: string;
  /** Plain text, at most 20,000 characters of it. */
  readonly text: string;
  readonly isCut: boolean;
}

/** An answer of a tool as its page shows it. */
export interface ShownResult {
  readonly isError: boolean;
  /** In one sentence. */
  readonly summary: string;
  /** Of the JSON-RPC error that came in place of a result. */
  readonly code: number | undefined;
  readonly parts: readonly ResultPart[];
}

const resultSchema = z.object({
  isError: z.boolean().catch(false),
  structuredContent: z.unknown().optional(),
  content: z
    .array(z.looseObject({ type: z.string(), text: z.string().optional().catch(undefined) }))
    .catch([]),
});

/** The answer of a tool in words and parts. MCP 2025-11-25 tools, "Tool Result" */
export function shownResult(answer: AnswerResult): ShownResult {
  if (answer.outcome === 'error') {
    return { isError: true, summary: answer.message, code: answer.code, parts: [] };
  }
  const { isError, structuredContent, content } = resultSchema.parse(answer.result);
  const texts = content
    .slice(0, mostParts)
    .map((part) =>
      part.type === 'text' && part.text !== undefined
        ? shown('Text', part.text)
        : shown(`Content of the type ${part.type}`, pretty(part)),
    );
  const structured =
    structuredContent === undefined ? [] : [shown('Structured content', pretty(structuredContent))];
  const whole = content.length === 0 && structured.length === 0;
  const parts = whole ? [shown('Result', pretty(answer.result))] : [...texts, ...structured];
  const summary = isError ? 'The tool says that it failed.' : 'The tool has answered.';
  return { isError, summary, code: undefined, parts };
}

function shown(title: string, text: string): ResultPart {
  return { title, text: text.slice(0, mostCharacters), isCut: text.length > mostCharacters };
}

function pretty(value: unknown): string {
  return laidOutJson(value, mostCharacters);
}
