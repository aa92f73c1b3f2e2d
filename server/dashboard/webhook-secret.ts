import type { ShownSecret } from '#pages/secret-pieces';
import { webhooksPath } from './webhook-words.ts';

/** The secret of a webhook, in the answer that makes it. */
export function shownWebhookSecret(
  organization: string,
  { id, secret }: { id: string; secret: string },
): ShownSecret {
  return {
    label: 'Webhook secret',
    secret,
    kept: 'it keeps it sealed, to sign with',
    again: 'rotate it',
    beside: [{ label: 'Webhook', text: id }],
    configurations: [],
    keep: 'Where messages are received, or in a password manager.',
    done: `${webhooksPath(organization)}/${id}`,
  };
}
