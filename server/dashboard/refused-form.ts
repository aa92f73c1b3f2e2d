import { AdministrationRefusal } from '#administration/administration-refusal';
import type { FieldError } from '#pages/page';

/**
 * What a form says beside its fields about a refusal that is the typist's to mend; anything else goes on to
 * the error page. `labels` names each field of the form by the operation's name for it; `conflict` is the
 * field that a conflict is about.
 *
 * @throws whatever `refusal` is, when no field can say it
 */
export function refusedForm(
  refusal: unknown,
  labels: Readonly<Record<string, { readonly field: string; readonly label: string }>>,
  conflict?: string,
): FieldError[] {
  if (!(refusal instanceof AdministrationRefusal)) throw refusal;
  if (refusal.code === 'conflict' && conflict !== undefined) {
    return [{ field: conflict, message: sentence(refusal.message) }];
  }
  if (refusal.code !== 'invalid') throw refusal;
  return refusal.fields.map(({ field, problem }) => {
    const known = labels[field] ?? labels[field.split('.')[0] ?? ''];
    const message = sentence(`${known?.label ?? field} ${problem}`.trim());
    return { field: known?.field ?? '', message };
  });
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
