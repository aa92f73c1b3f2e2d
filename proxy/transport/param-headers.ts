import { fieldValue } from './field-value.ts';
import { textAt, type Message } from 'latchkey-mcp/raw-message';

/** An argument of a tool, by its path, that a header repeats. */
export type MirroredParameter = { path: string[]; header: string };

const key = 'x-mcp-header';
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const mirrorable = new Set<unknown>(['string', 'integer', 'boolean']);

/** Members of a schema that hold other schemas whose values are not always there to be repeated. */
const branches = [
  'items',
  'prefixItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'propertyNames',
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
];
const namedBranches = ['patternProperties', 'dependentSchemas', '$defs', 'definitions'];

/**
 * The arguments that the `x-mcp-header` annotations of a tool's input schema want repeated in headers;
 * `undefined` when one of them breaks the rules, which makes the whole tool unusable.
 *
 * MCP 2026-07-28 server tools, x-mcp-header; SEP-2243
 */
export function mirroredParameters(inputSchema: unknown): MirroredParameter[] | undefined {
  const found: MirroredParameter[] = [];

  function visit(schema: unknown, path: string[], reachable: boolean): boolean {
    if (!isObject(schema)) return true;
    if (key in schema && !take(schema, path, reachable)) return false;
    const { properties } = schema;
    if (isObject(properties))
      for (const [name, property] of Object.entries(properties))
        if (!visit(property, [...path, name], reachable)) return false;
    const within = [
      ...branches.flatMap((name) => schema[name]),
      ...namedBranches.flatMap((name) => {
        const named = schema[name];
        return isObject(named) ? Object.values(named) : [];
      }),
    ];
    return within.every((branch) => visit(branch, path, false));
  }

  function take(schema: Record<string, unknown>, path: string[], reachable: boolean): boolean {
    const header = schema[key];
    if (!reachable || path.length === 0 || typeof header !== 'string') return false;
    if (!token.test(header) || !mirrorable.has(schema['type'])) return false;
    const name = `mcp-param-${header.toLowerCase()}`;
    if (found.some((other) => other.header === name)) return false;
    found.push({ path, header: name });
    return true;
  }

  return visit(inputSchema, [], true) ? found : undefined;
}

/** The headers that repeat arguments of a call; what is absent or `null` has none. SEP-2243 */
export function paramHeaders(
  call: Message,
  parameters: readonly MirroredParameter[],
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of parameters) {
    const value = plainText(textAt(call, 'params', 'arguments', ...path));
    if (value !== undefined) headers[header] = fieldValue(value);
  }
  return headers;
}

/** Integers that a number cannot hold exactly have no header, as servers compare numbers. */
function plainText(json: string | undefined): string | undefined {
  const value: unknown = json === undefined ? undefined : JSON.parse(json);
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
