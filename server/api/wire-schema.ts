import { z } from 'zod';

import { wireName } from './wire-names.ts';

/** A JSON Schema, and the named ones that it refers to. */
export interface WireSchema {
  readonly schema: JsonObject;
  readonly named: Readonly<Record<string, JsonObject>>;
}

/** An object that can be sent as JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The JSON Schema of what goes over the wire: a request's `input`, or an answer's `output`. JSON Schema 2020-12 */
export function wireSchema(schema: z.ZodType, io: 'input' | 'output'): WireSchema {
  const { $schema: _, $defs = {}, ...root } = z.toJSONSchema(schema, { io });
  const named = Object.entries($defs).map(([name, one]) => [name, renamed(one)] as const);
  return { schema: renamed(root), named: Object.fromEntries(named) };
}

function renamed(schema: unknown): JsonObject {
  return Object.fromEntries(
    Object.entries(asObject(schema)).flatMap(([keyword, value]) => {
      if (keyword === 'id') return [];
      if (isUnbounded(keyword, value)) return [];
      return [[keyword, renamedKeyword(keyword, value)]];
    }),
  );
}

function renamedKeyword(keyword: string, value: unknown): unknown {
  switch (keyword) {
    case '$ref':
      return String(value).replace('#/$defs/', '#/components/schemas/');
    case 'properties':
      return Object.fromEntries(
        Object.entries(asObject(value)).map(([name, one]) => [wireName(name), renamed(one)]),
      );
    case 'required':
      return Array.isArray(value) ? value.map((name) => wireName(String(name))) : value;
    case 'items':
      return renamed(value);
    case 'anyOf':
    case 'oneOf':
    case 'allOf':
      return Array.isArray(value) ? value.map(renamed) : value;
    default:
      return value;
  }
}

/** The bounds of a number that JavaScript has anyway say nothing. */
function isUnbounded(keyword: string, value: unknown): boolean {
  return (
    (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER) ||
    (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER)
  );
}

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
