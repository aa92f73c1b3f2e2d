import { discard } from '#gateway/relay';
import type { UpstreamAnswer } from '#gateway/upstream';

/** Reads what nobody wants of an answer; that it broke off is no matter. */
export async function discardAnswer({ body }: UpstreamAnswer): Promise<void> {
  await discard(body).catch(() => undefined);
}
