import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import type { GatewayAnswer } from '#server/gateway/request';

/** The body of an answer, read to its end. */
export async function bodyText({ body }: GatewayAnswer): Promise<string> {
  if (body === undefined || typeof body === 'string') return body ?? '';
  return body instanceof Uint8Array ? Buffer.from(body).toString() : text(Readable.from(body));
}
