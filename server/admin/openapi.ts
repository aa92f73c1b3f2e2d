import type { Operation, OperationRoute } from './operation.ts';
import { wireName } from './wire-names.ts';
import { z } from 'zod';

const problem = {
  type: 'object',
  properties: {
    error: { type: 'string' },
    error_description: { type: 'string' },
    fields: {
      type: 'array',
      description: 'The invalid fields of the request',
      items: {
        type: 'object',
        properties: { field: { type: 'string' }, problem: { type: 'string' } },
        required: ['field', 'problem'],
      },
    },
  },
  required: ['error', 'error_description'],
};

const refusals: Readonly<Record<string, string>> = {
  '400': 'The request cannot be read',
  '401': 'Missing or invalid personal access token',
  '403': 'The person’s role does not allow it',
  '404': 'Not found, or not visible to the person',
  '409': 'The current state does not allow it',
  '422': 'A field is invalid',
  '429': 'Too many invalid tokens from this address',
};

/** The OpenAPI 3.1 document of the admin API, derived from the schemas that validate its requests. */
export function openApiDocument(base: string, operations: readonly Operation[]): JsonObject {
  const schemas: Record<string, JsonObject> = { Problem: problem };
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const operation of operations) {
    const { route } = operation;
    if (!route) continue;
    const described = describe(operation, route, (named) => Object.assign(schemas, named));
    const path = `/api/admin${wireName(route.path)}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: described };
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Latchkey admin API',
      version: '1',
      description:
        'Administers organizations, servers, clients, keys and people. Authenticate with a personal token from your account page. Times are seconds since 1970. Only the response that creates a secret contains it.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: base }],
    security: [{ personalToken: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        personalToken: { type: 'http', scheme: 'bearer', bearerFormat: 'pat_…' },
      },
    },
  };
}

function describe(
  operation: Operation,
  route: OperationRoute,
  keep: (named: Readonly<Record<string, JsonObject>>) => void,
): JsonObject {
  const input = wireSchema(operation.input, 'input');
  const output = wireSchema(operation.output, 'output');
  keep(input.named);
  keep(output.named);
  const properties = Object.entries(input.schema['properties'] ?? {});
  const { required } = input.schema;
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  const inPath = new Set(fieldsInPath(route.path).map(wireName));
  const others = properties.filter(([name]) => !inPath.has(name));
  const inQuery = route.method === 'GET' || route.method === 'DELETE';
  const parameters = properties
    .filter(([name]) => inPath.has(name) || inQuery)
    .map(([name, schema]) => ({
      name,
      in: inPath.has(name) ? 'path' : 'query',
      required: inPath.has(name) || isRequired(name),
      schema,
    }));
  const body = {
    type: 'object',
    properties: Object.fromEntries(others),
    required: others.map(([name]) => name).filter(isRequired),
    additionalProperties: false,
  };
  const hasBody = !inQuery && others.length > 0;
  return {
    operationId: operation.name,
    summary: operation.doc,
    tags: [operation.name.split('.')[0]],
    ...(parameters.length > 0 && { parameters }),
    ...(hasBody && { requestBody: { required: true, content: json(body) } }),
    responses: {
      [route.made === undefined ? '200' : '201']: {
        description: 'Done',
        content: json(output.schema),
      },
      ...Object.fromEntries(
        Object.entries(refusals).map(([status, description]) => [
          status,
          { description, content: json({ $ref: '#/components/schemas/Problem' }) },
        ]),
      ),
    },
  };
}

function json(schema: unknown): JsonObject {
  return { 'application/json': { schema } };
}

/** A JSON Schema, and the named schemas that it refers to. */
export interface WireSchema {
  readonly schema: JsonObject;
  readonly named: Readonly<Record<string, JsonObject>>;
}

/** An object that can be sent as JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The JSON Schema of a request (`input`) or response (`output`), with wire names. JSON Schema 2020-12 */
function wireSchema(schema: z.ZodType, io: 'input' | 'output'): WireSchema {
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

/** Whether a bound is only the range of safe integers, which need not be documented. */
function isUnbounded(keyword: string, value: unknown): boolean {
  return (
    (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER) ||
    (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER)
  );
}

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

/** The names in braces in a path: `organization` in `/organizations/{organization}`. */
export function fieldsInPath(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}

/** Replaces names in braces in a path by their `values`, percent-encoded. */
export function filledPath(path: string, values: Readonly<Record<string, unknown>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    return encodeURIComponent(typeof value === 'string' ? value : '');
  });
}
