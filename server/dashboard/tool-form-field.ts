import type { ToolField } from '#console/tool-fields';
import type { ArgumentProblem } from '#console/typed-arguments';
import { shownName } from '#pages/plain-text';
import type { ToolFormField } from '#pages/tool-form';

/** A field of a tool's form as its page shows it, with what was typed and what is wrong with it. */
export function toolFormField(
  { name, kind, options, description, required }: ToolField,
  place: number,
  { typed, problems }: { typed: ReadonlyMap<string, string>; problems: readonly ArgumentProblem[] },
): ToolFormField {
  const error = problems.find((problem) => problem.name === name)?.message ?? '';
  const format = kind === 'json' ? 'As JSON. ' : '';
  return {
    id: `argument-${place}`,
    field: `argument.${name}`,
    label: shownName(name),
    kind,
    options,
    help: `${format}${description.slice(0, 1000)}`.trim(),
    required,
    value: typed.get(name) ?? '',
    error,
  };
}
