import type { EpochSeconds } from '#clock/clock';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import { OutboundError } from '#outbound/outbound-error';
import { readRetryAfter } from './retry.ts';
import { signedHeaders, type WebhookMessage } from './webhook-message.ts';
import { webhookUrlProblem } from './webhook-url.ts';

/** What came of sending a message, in words that go behind "it". */
export interface SendOutcome {
  readonly isDelivered: boolean;
  /** What the receiver answered, if it did. */
  readonly status: number | undefined;
  readonly words: string;
  /** For how long it wants to be left alone. */
  readonly retryAfterSeconds?: number | undefined;
}

export interface SendMessagePorts {
  readonly ask: GuardedFetch;
  readonly allowedHosts: readonly string[];
}

/** Sends a message once. A redirect is a failure, as what is signed for one place is no other's to have. Never rejects. */
export async function sendMessage(
  message: WebhookMessage,
  to: { readonly url: string; readonly secrets: readonly string[]; readonly now: EpochSeconds },
  { ask, allowedHosts }: SendMessagePorts,
  { signal }: { signal?: AbortSignal } = {},
): Promise<SendOutcome> {
  const { url, secrets, now } = to;
  const failed = (words: string) => ({ isDelivered: false, status: undefined, words });
  // Whoever runs this server may have named the host once, and no longer.
  const problem = webhookUrlProblem(url, allowedHosts);
  if (problem !== undefined) return failed(problem);
  try {
    const headers = signedHeaders(message, secrets, now);
    const { body } = message;
    const { status, headers: answered } = await ask(url, {
      method: 'POST',
      headers,
      body,
      ...(signal && { signal }),
    });
    const isDelivered = status >= 200 && status < 300;
    const mayWait = status === 429 || status === 503;
    return {
      isDelivered,
      status,
      words: statusWords(status),
      retryAfterSeconds: mayWait ? readRetryAfter(answered.get('retry-after'), now) : undefined,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return failed(outboundWords(error));
  }
}

function statusWords(status: number): string {
  if (status >= 300 && status < 400) return `answered ${status}, and no redirect is followed`;
  return `answered ${status}`;
}

/** What went wrong on the way, in words that go behind "it". */
export function outboundWords({ code }: OutboundError): string {
  switch (code) {
    case 'forbidden':
      return 'is not on the public internet';
    case 'timeout':
      return 'did not answer in time';
    case 'unreachable':
    case 'redirected':
    case 'refused':
    case 'too_large':
      return 'could not be reached';
  }
}
