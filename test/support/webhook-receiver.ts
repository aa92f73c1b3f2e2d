import { Webhook } from 'standardwebhooks';
import { z } from 'zod';

import { bodyOf, countedServer } from './counted-server.ts';

const envelope = z.object({
  type: z.string(),
  timestamp: z.string(),
  data: z.record(z.string(), z.unknown()),
});

/** One delivery as it came. */
export interface Delivery extends z.infer<typeof envelope> {
  readonly id: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Record<string, string>;
}

/** The answer of a receiver; `hold` is no answer until the caller disconnects. */
export type ReceiverAnswer =
  | { readonly status: number; readonly headers?: Record<string, string> }
  | 'hold';

/** A receiver of events that verifies them with an independent library. */
export interface WebhookReceiver extends AsyncDisposable {
  readonly origin: string;
  readonly port: string;
  readonly deliveries: readonly Delivery[];
  /** Sets the next answers, in order; the answer after them is 204. */
  answer(...answers: ReceiverAnswer[]): void;
  /** Resolves when that many have arrived. */
  has(count: number): Promise<void>;
}

export async function webhookReceiver(): Promise<WebhookReceiver> {
  const deliveries: Delivery[] = [];
  const answers: ReceiverAnswer[] = [];
  const waiting = new Set<() => void>();
  const server = await countedServer(async (request, response) => {
    const body = await bodyOf(request);
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const { 'webhook-id': id = '' } = headers;
    const path = request.url ?? '';
    deliveries.push({ ...envelope.parse(JSON.parse(body)), id, path, body, headers });
    for (const look of waiting) look();
    const answer = answers.shift() ?? { status: 204 };
    if (answer === 'hold') return;
    response.writeHead(answer.status, answer.headers).end();
  });
  return {
    origin: server.origin,
    port: new URL(server.origin).port,
    deliveries,
    answer: (...more) => void answers.push(...more),
    has: (count) =>
      new Promise((resolve) => {
        const look = () => {
          if (deliveries.length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Verifies a delivery as a receiver with this secret does, and returns its event. @throws when the receiver refuses it */
export function verified(secret: string, { body, headers }: Delivery): unknown {
  return new Webhook(secret).verify(body, headers);
}
