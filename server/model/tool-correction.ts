import { z } from 'zod';

/** The hints by which assistants decide whether to ask a person before a call. MCP 2025-11-25 `ToolAnnotations` */
export const toolHints = [
  'readOnlyHint',
  'destructiveHint',
  'idempotentHint',
  'openWorldHint',
] as const;
export type ToolHint = (typeof toolHints)[number];

const hint = z.boolean().optional();

/** The texts and hints of a tool that administrators set in place of the server's. Omitted members stay as the server has them. */
const toolCorrectionSchema = z.strictObject({
  title: z.string().max(200).optional(),
  description: z.string().max(10_000).optional(),
  annotations: z
    .strictObject({
      readOnlyHint: hint,
      destructiveHint: hint,
      idempotentHint: hint,
      openWorldHint: hint,
    })
    .optional(),
});

export type ToolCorrection = z.output<typeof toolCorrectionSchema>;

/** Reads the JSON that `toolCorrectionText` wrote. */
export function readToolCorrection(text: string): ToolCorrection {
  return toolCorrectionSchema.parse(JSON.parse(text));
}

/** A correction as JSON; `null` if it corrects nothing. */
export function toolCorrectionText({
  title,
  description,
  annotations = {},
}: ToolCorrection): string | null {
  const hints = toolHints.flatMap((name) => {
    const value = annotations[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const isEmpty = title === undefined && description === undefined && hints.length === 0;
  if (isEmpty) return null;
  return JSON.stringify({
    title,
    description,
    ...(hints.length > 0 && { annotations: Object.fromEntries(hints) }),
  });
}

/** The value of each hint with which an assistant asks less often. */
export const trustingHints: Readonly<Record<ToolHint, boolean>> = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};
