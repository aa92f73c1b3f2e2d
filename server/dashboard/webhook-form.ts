import type { Form } from '#oauth/form';
import type { FieldError } from '#pages/page';
import { refusedForm } from './refused-form.ts';
import type { TypedWebhook } from './webhook-pages.ts';

const labels = {
  url: { field: 'url', label: 'The URL' },
  actions: { field: 'actions', label: 'One of the events' },
};

/** What a form says of where events go, and which. */
export function typedWebhook(sent: Form): TypedWebhook {
  return { url: sent.get('url')?.trim() ?? '', actions: sent.get('actions') ?? '' };
}

/** The same for an operation: events are apart by blanks, commas or lines. */
export function webhookWish({ url, actions }: TypedWebhook) {
  return { url, actions: actions.split(/[\s,]+/).filter((text) => text !== '') };
}

/** What is wrong with which field. @throws whatever no field can say */
export function refusedWebhook(refusal: unknown): FieldError[] {
  const [first, ...others] = refusedForm(refusal, labels, 'url');
  // Of many wrong events one word is enough.
  const rest = others.filter(({ field }) => field !== first?.field);
  return first ? [first, ...rest] : [];
}
