import type { Form } from '#oauth/form';

/** What was checked of the boxes `{name}.{value}` of a form, in the order it came. */
export function checkedValues(form: Form, name: string): string[] {
  const start = `${name}.`;
  return [...form.keys()]
    .filter((field) => field.startsWith(start))
    .map((field) => field.slice(start.length));
}
