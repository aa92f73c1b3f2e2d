import { createHash } from 'node:crypto';

/** What a tool says of itself, in hashes of its parts, so that it can be told which one changed. */
export type ToolFingerprint = Record<ToolPart, string>;

export const toolParts = ['description', 'schema', 'annotations'] as const;
export type ToolPart = (typeof toolParts)[number];

/** The order of an object's members is no difference. */
export function toolFingerprint(tool: Readonly<Record<string, unknown>>): ToolFingerprint {
  const { title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    description: hash([title, description]),
    schema: hash([inputSchema, outputSchema]),
    annotations: hash([annotations]),
  };
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value, sorted)).digest('base64url');
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
