import type { ShownWebhook } from '#administration/shown-webhook';
import type { EpochSeconds } from '#clock/clock';
import type { Badge, Cell } from '#pages/table';
import { dashboardPath } from '#pages/dashboard-frame';

type Fact = { readonly label: string; readonly text?: string; readonly cell?: Cell };

/** Where the breadcrumb of a webhook’s pages begins. */
export const webhookCrumbs = (organization: string) => [
  { text: 'Settings', href: `${dashboardPath(organization)}/settings` },
  { text: 'Webhooks', href: webhooksPath(organization) },
];

export const webhooksPath = (organization: string) =>
  `${dashboardPath(organization)}/settings/webhooks`;

/** How a webhook is, in a word or two. */
export function webhookBadge({ status }: ShownWebhook): Badge {
  switch (status) {
    case 'delivering':
      return { text: 'delivering', tone: 'good' };
    case 'retrying':
      return { text: 'waiting to try again', tone: 'care' };
    case 'disabled':
      return { text: 'disabled', tone: 'bad' };
  }
}

/** Which events it gets. */
export function wantedWords({ actions }: ShownWebhook): string {
  return actions.length === 0 ? 'Every event' : actions.join(', ');
}

/** Where it is sent, as far as it fits: the path of a chat’s URL may be a secret, and is for its own page. */
export function hostOf({ url }: ShownWebhook): string {
  return new URL(url).host;
}

/** Why it is sent nothing; `undefined` while it is sent something. */
export function disabledWords({ disabledBecause, lastFailure }: ShownWebhook): string | undefined {
  switch (disabledBecause) {
    case null:
      return undefined;
    case 'asked':
      return 'It is sent nothing, as somebody disabled it. The audit log says who.';
    case 'gone':
      return 'It is sent nothing, as it answered that it is gone for good (410).';
    case 'failing':
      return `It is sent nothing, as it took no event for three days. The last time it ${lastFailure}.`;
  }
}

/** How deliveries go, for its own page. */
export function webhookFacts(webhook: ShownWebhook, now: EpochSeconds): Fact[] {
  const { status, nextAttemptAt, failingSince, lastFailure, lastFailureAt } = webhook;
  const time = (at: number | null, otherwise = 'Never'): Cell => {
    return { kind: 'time', at: at ?? undefined, otherwise };
  };
  const failure =
    lastFailure === null ? [] : [{ label: 'The last failure', text: `It ${lastFailure}` }];
  return [
    { label: 'Sent to', text: webhook.url },
    { label: 'Events', text: wantedWords(webhook) },
    { label: 'Last taken', cell: time(webhook.lastSuccessAt) },
    ...failure,
    ...(lastFailureAt === null ? [] : [{ label: 'Failed last', cell: time(lastFailureAt) }]),
    ...(status === 'retrying'
      ? [
          { label: 'Failing since', cell: time(failingSince) },
          nextAttemptAt !== null && nextAttemptAt - now >= 60
            ? { label: 'Next try', cell: time(nextAttemptAt) }
            : { label: 'Next try', text: 'Within a minute' },
        ]
      : []),
    ...(webhook.earlierSecretUntil === null
      ? []
      : [{ label: 'The secret before signs as well', cell: time(webhook.earlierSecretUntil) }]),
    { label: 'Created', cell: time(webhook.createdAt) },
  ];
}
