import { z } from 'zod';

/** The arguments of the tools that every upstream has. */
export const toolSchemas = {
  echo: z.object({ text: z.string() }),
  add: z.object({ a: z.number(), b: z.number() }),
  /** Takes a minute unless told otherwise or cancelled. */
  slow: z.object({ ms: z.number().default(60_000) }),
  /** Reports each step before it answers. */
  progress: z.object({ steps: z.int().default(3) }),
  /** Has the client's model answer. */
  ask: z.object({ question: z.string() }),
  /** Answers with so many bytes of text. */
  big: z.object({ bytes: z.int() }),
};

export const memo = { uri: 'memo://greeting', text: 'Hello from upstream' };

export const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
