import { Webhook } from 'standardwebhooks';
import { beforeEach, expect, test, vi } from 'vitest';

import { type StoredAuditEvent, insertAuditEvent } from '#server/db/audit';
import { exportAudit } from '#server/audit/export-audit';
import { eventMessage, newWebhookSecret, signedHeaders } from '#server/webhooks/webhook-message';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_000;
const event: StoredAuditEvent = {
  id: '006b49d200',
  at: now - 7,
  actor: 'user:user_dana',
  organization: 'acme',
  action: 'key.create',
  target: 'key:key_1 “Grüße”',
  address: undefined,
  requestId: 'req_1',
  outcome: 'done',
};

// The library reads the machine's own clock.
beforeEach(() => {
  vi.useFakeTimers({ now: now * 1000, toFake: ['Date'] });
  return () => vi.useRealTimers();
});

test('a receiver with the library of Standard Webhooks accepts a message of ours', () => {
  const secret = newWebhookSecret();
  const message = eventMessage(event);
  const headers = signedHeaders(message, [secret], now);

  expect(new Webhook(secret).verify(message.body, headers)).toEqual({
    type: 'key.create',
    timestamp: '2027-01-15T07:59:53.000Z',
    data: {
      time: '2027-01-15T07:59:53.000Z',
      actor: 'user:user_dana',
      organization: 'acme',
      action: 'key.create',
      target: 'key:key_1 “Grüße”',
      address: null,
      request_id: 'req_1',
      outcome: 'done',
      times: 1,
    },
  });
  expect(secret).toMatch(/^whsec_[\w+/]{43}=$/);
});

test('it refuses another secret, another body, another id, and an old message', () => {
  const secret = newWebhookSecret();
  const message = eventMessage(event);
  const receiver = new Webhook(secret);
  const headers = signedHeaders(message, [secret], now);

  const taken =
    (of: string, but: Record<string, string> = {}) =>
    () =>
      receiver.verify(of, { ...headers, ...but });
  expect(taken(message.body)).not.toThrow();
  expect(taken(message.body.replace('acme', 'acne'))).toThrow('signature');
  expect(taken(message.body, { 'webhook-id': 'other' })).toThrow('signature');
  expect(taken(message.body, signedHeaders(message, [newWebhookSecret()], now))).toThrow(
    'signature',
  );
  expect(taken(message.body, signedHeaders(message, [secret], now - 301))).toThrow('too old');
});

test('during a rotation, a receiver with either secret accepts the message', () => {
  const [fresh, earlier] = [newWebhookSecret(), newWebhookSecret()];
  const message = eventMessage(event);
  const headers = signedHeaders(message, [fresh, earlier], now);

  for (const secret of [fresh, earlier]) {
    expect(() => new Webhook(secret).verify(message.body, headers)).not.toThrow();
  }
});

test('the sent event equals its entry in an export, which also has the addresses of people', async () => {
  await using stores = await openDatabase();
  await insertAuditEvent(stores.db, event);
  const lines = [];
  for await (const piece of exportAudit({ organization: 'acme' }, 'jsonl', stores)) {
    lines.push(piece);
  }

  const { data } = JSON.parse(eventMessage(event).body);
  const addresses = { actor_email: null, target_email: null };
  expect({ ...data, ...addresses }).toEqual(JSON.parse(lines.join('')));
});
