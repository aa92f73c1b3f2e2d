import { randomBytes } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { insertAuditEvent } from '#server/db/audit';
import { insertOrganization } from '#server/db/organizations';
import { claimPendingEvent, findWebhook, insertWebhook } from '#server/db/webhooks';
import { masterKey } from '#server/secrets/master-key';
import type { GuardedRequest } from '#server/outbound/guarded-fetch';
import type { OpenStores } from '#server/app/stores';
import { deliverNext } from '#server/webhooks/deliveries';
import { newWebhookSecret, webhookSecretPurpose } from '#server/webhooks/webhook-message';
import { everyCommit } from '#support/crashes/every-commit';
import { newestEvents } from '#support/newest-events';
import { stillClock } from '#support/still-clock';

const sealing = masterKey(randomBytes(32));
const clock = stillClock();
const [organizationId, id] = ['org_acme', 'whk_siem'];
const claimSeconds = 15;

/** The events that the receiver got from all processes, in order. */
let received: { id: string; type: string }[];
beforeEach(() => {
  received = [];
});

async function prepare(stores: OpenStores): Promise<void> {
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: organizationId, name: 'acme', createdAt });
  const sealedSecret = sealing.seal(webhookSecretPurpose(id), newWebhookSecret());
  const wish = { url: 'https://siem.example/in', actions: [], sealedSecret, createdAt };
  await insertWebhook(stores.db, { id, organizationId, ...wish }, 100);
  for (const action of ['one', 'two', 'three'])
    await insertAuditEvent(stores.db, {
      at: createdAt,
      actor: 'operator',
      organization: 'acme',
      action,
      target: undefined,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
}

/** A process that sends until there is nothing to send. */
async function deliver(stores: OpenStores, answer: (type: string) => number): Promise<void> {
  const { signal } = new AbortController();
  for (;;) {
    const now = clock.now();
    const pending = await claimPendingEvent(stores.db, id, { now, until: now + claimSeconds });
    if (!pending) return;
    const ports = {
      db: stores.db,
      async ask(_: string | URL, { headers, body }: GuardedRequest = {}) {
        const { type } = z.object({ type: z.string() }).parse(JSON.parse(body ?? ''));
        received.push({ id: headers?.['webhook-id'] ?? '', type });
        return new Response(null, { status: answer(type) });
      },
      allowedHosts: [],
      sealing,
      clock,
      random: () => 0,
      undelivered: () => undefined,
    };
    await deliverNext(pending, ports, signal);
  }
}

/** The types of the events in the order of their first arrival. A repetition must have followed its event immediately. */
function inOrder(): string[] {
  const events = received.filter((one, at) => one.id !== received[at - 1]?.id);
  expect(new Set(events.map((one) => one.id)).size).toBe(events.length);
  return events.map(({ type }) => type);
}

test('deliver events: wherever the server crashes, each arrives in order, and a repetition has the same id', async () => {
  const twoFailed = () => received.filter(({ type }) => type === 'two').length > 1;
  const answer = (type: string) => (type === 'two' && !twoFailed() ? 500 : 204);
  const points = await everyCommit({
    prepare,
    async work(stores) {
      received = [];
      await deliver(stores, answer);
    },
    async after({ stores }) {
      clock.advance(claimSeconds);
      await deliver(stores, answer);

      expect(inOrder()).toEqual(['one', 'two', 'three']);
      expect(received.length).toBeLessThanOrEqual(5);
    },
  });

  // A claim before each attempt, a new position after each of the three events, and a failure of the second one.
  const around = (what: string) => [`before ${what}`, `after ${what}`];
  const [claim, move] = ['commit', 'commit'];
  const commits = [claim, move, claim, 'update webhook', claim, move, claim, move];
  expect(points).toEqual(commits.flatMap(around));
});

test('disable a webhook whose receiver returns 410: wherever the server crashes, the audit log has the entry once it is disabled', async () => {
  const answer = (type: string) => (type === 'two' ? 410 : 204);
  const states: unknown[] = [];
  const points = await everyCommit({
    prepare,
    async work(stores) {
      received = [];
      await deliver(stores, answer);
    },
    async after({ stores, point }) {
      const disabled = async () => (await findWebhook(stores.db, organizationId, id))?.disabled;
      const recorded = async () =>
        (await newestEvents(stores.db, 10)).filter(({ action }) => action === 'webhook.disable')
          .length;
      const left = { disabled: await disabled(), recorded: await recorded() };
      states.push([point, left.disabled?.because]);
      clock.advance(claimSeconds);
      await deliver(stores, answer);

      expect(left.recorded).toBe(left.disabled === undefined ? 0 : 1);
      expect(await disabled()).toMatchObject({ because: 'gone' });
      expect(await recorded()).toBe(1);
      expect(inOrder()).toEqual(['one', 'two']);
    },
  });

  // A claim and a new position for the first event, a claim and the disabled webhook for the second one.
  expect(points).toEqual(Array.from({ length: 4 }, () => ['before commit', 'after commit']).flat());
  expect(states.slice(-2)).toEqual([
    ['before commit', undefined],
    ['after commit', 'gone'],
  ]);
});
