import { z } from 'zod';
import { exactJson } from '#tools/exact-json';
import type { Tool } from './call-server.ts';

/** With more fields a form becomes unusable. */
const mostFields = 40;

/** A tool argument as a form field. */
export interface ToolField {
  readonly name: string;
  readonly kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json';
  readonly description: string;
  readonly required: boolean;
  readonly options: readonly string[];
}

const schemaShape = z.object({
  properties: z.record(z.string(), z.unknown()).catch({}),
  required: z.array(z.string()).catch([]),
});

const propertyShape = z.object({
  type: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
  description: z.string().optional().catch(undefined),
  enum: z.array(z.string()).optional().catch(undefined),
});

/** The form fields of a tool: simple fields for simple values, JSON for the rest. JSON Schema 2020-12 */
export function toolFields({ inputSchema }: Pick<Tool, 'inputSchema'>): readonly ToolField[] {
  const { properties, required } = schemaShape.parse(inputSchema);
  return Object.entries(properties)
    .slice(0, mostFields)
    .map(([name, property]) => {
      const { data } = propertyShape.safeParse(property);
      return {
        name,
        kind: kindOf(data),
        description: data?.description ?? data?.title ?? '',
        required: required.includes(name),
        options: data?.enum ?? [],
      };
    });
}

function kindOf(property: z.output<typeof propertyShape> | undefined): ToolField['kind'] {
  const type = property?.type;
  if (type === 'string') return property?.enum ? 'choice' : 'text';
  return type === 'number' || type === 'integer' || type === 'boolean' ? type : 'json';
}

/** A message has at most 64 levels, and three of them enclose an argument. */
const deepest = 61;

/** A problem with the value entered for an argument. */
export interface ArgumentProblem {
  readonly name: string;
  readonly message: string;
}

/** `values` by argument name, valid for `tools/call` if there are no `problems`. */
interface TypedArguments {
  readonly values: Readonly<Record<string, unknown>>;
  readonly problems: readonly ArgumentProblem[];
}

/**
 * Converts form values to the types that the tool declares. Empty fields are omitted. Only required fields, numbers, JSON
 * and nesting depth are checked here; the MCP server validates the rest.
 */
export function typedArguments(
  fields: readonly ToolField[],
  typed: ReadonlyMap<string, string>,
): TypedArguments {
  const values = new Map<string, unknown>();
  const problems: ArgumentProblem[] = [];
  for (const field of fields) {
    const text = typed.get(field.name);
    if (text === undefined) {
      if (field.required)
        problems.push({ name: field.name, message: `${field.name} is required.` });
      continue;
    }
    const read = valueOf(field, text);
    if ('problem' in read) problems.push({ name: field.name, message: read.problem });
    else values.set(field.name, read.value);
  }
  return { values: Object.fromEntries(values), problems };
}

function valueOf(
  { name, kind }: ToolField,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  switch (kind) {
    case 'text':
    case 'choice':
      return { value: text };
    case 'boolean':
      return { value: text === 'true' };
    case 'number':
    case 'integer': {
      const value = Number(text);
      const fits = kind === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value);
      const wanted = kind === 'integer' ? 'a whole number' : 'a number';
      return text.trim() !== '' && fits ? { value } : { problem: `${name} is not ${wanted}.` };
    }
    case 'json':
      try {
        if (!isDeeper(JSON.parse(text), deepest)) return { value: exactJson(text) };
        return {
          problem: `${name} is nested deeper than ${deepest} levels.`,
        };
      } catch {
        return { problem: `${name} is not valid JSON. Put text in double quotes.` };
      }
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
