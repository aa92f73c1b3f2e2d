import type { ToolField } from './tool-fields.ts';

/** A message has 64 levels at most, of which three are around an argument. */
const deepest = 61;

/** What is wrong with what was typed for one argument. */
export interface ArgumentProblem {
  readonly name: string;
  readonly message: string;
}

/** `values` by the name of the argument, fit for `tools/call` where there are no `problems`. */
export interface TypedArguments {
  readonly values: Readonly<Record<string, unknown>>;
  readonly problems: readonly ArgumentProblem[];
}

/**
 * The arguments of a call from what was typed, each as its tool wants it. What was left empty is left out.
 * Whether they are right is the MCP server's to say; here only that they are numbers and JSON, not nested
 * deeper than a call may be.
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
      if (field.required) problems.push({ name: field.name, message: `${field.name} is needed.` });
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
        const value: unknown = JSON.parse(text);
        if (!isDeeper(value, deepest)) return { value };
        return {
          problem: `${name} is nested deeper than ${deepest} levels, which no call may be.`,
        };
      } catch {
        return { problem: `${name} is not JSON. A text stands in double quotes there.` };
      }
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
