import { createHash } from 'node:crypto';

import { laidOutJson } from '#gateway/laid-out-json';

/** What a server says of one tool, as far as an assistant acts on it. */
export interface ToolDefinition {
  readonly name: string;
  /** SHA-256 of all of it, base64url; the order of an object's members is no difference. */
  readonly digest: string;
  /** The same as JSON for people to read, two blanks deep, cut where it is very long. */
  readonly text: string;
}

const longestText = 16 * 1024;

/** Eight times what MCP asks servers to stay within. A longer name could not be accepted by it, and would fill the disk. */
const longestName = 1_000;

/** The definition of one element of `tools`; `undefined` for what is none. MCP 2025-11-25 server/tools */
export function toolDefinition(tool: unknown): ToolDefinition | undefined {
  if (typeof tool !== 'object' || tool === null) return undefined;
  const { name, title, description, inputSchema, outputSchema, annotations } = {
    ...tool,
  } as Readonly<Record<string, unknown>>;
  if (typeof name !== 'string' || name === '' || name.length > longestName) return undefined;
  const told = { title, description, inputSchema, outputSchema, annotations };
  const digest = createHash('sha256').update(JSON.stringify(told, sorted)).digest('base64url');
  const whole = laidOutJson(told, longestText, { sorted: true });
  const text = whole.length > longestText ? `${whole.slice(0, longestText)}…` : whole;
  return { name, digest, text };
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
