import { z } from 'zod';

import type { Tool } from './list-tools.ts';

/** So many fields still fit into one form. */
const mostFields = 40;

/** One argument of a tool as a form asks for it. */
export interface ToolField {
  /** The argument's name. */
  readonly name: string;
  readonly kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json';
  readonly description: string;
  readonly required: boolean;
  /** Of a choice. */
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

/** The fields of a tool's form: plain ones for plain values, JSON for the rest. JSON Schema 2020-12 */
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
