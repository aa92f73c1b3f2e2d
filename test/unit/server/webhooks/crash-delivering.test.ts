import { randomBytes } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { masterKey } from '#server/signing/master-key';
import type { GuardedRequest } from '#server/outbound/guarded-fetch';
import type { OpenStores } from '#server/stores';
import { deliverNext } from '#server/webhooks/deliver-next';
import { webhookSecretPurpose } from '#server/webhooks/webhook';
import { newWebhookSecret } from '#server/webhooks/webhook-message';
import { everyCommit } from '#support/crashes/every-commit';
import { stillClock } from '#support/still-clock';

const sealing = masterKey(randomBytes(32));
const clock = stillClock();
const [organizationId, id] = ['org_acme', 'whk_siem'];

/** What the receiver has had, in order, over all processes. */
let received: { id: string; type: string }[];
beforeEach(() => {
  received = [];
});

async function prepare(stores: OpenStores): Promise<void> {
  const createdAt = clock.now();
  await stores.organizations.add({ id: organizationId, name: 'acme', createdAt });
  const sealedSecret = sealing.seal(webhookSecretPurpose(id), newWebhookSecret());
  const wish = { url: 'https://siem.example/in', actions: [], sealedSecret, createdAt };
  await stores.webhooks.add({ id, organizationId, ...wish }, 100);
  for (const action of ['one', 'two', 'three'])
    await stores.audit.append({
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
    const pending = await stores.backlog.next(id);
    if (!pending) return;
    const ports = {
      backlog: stores.backlog,
      together: stores.together,
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

/** Events in the order in which each was first had; the same again must have followed at once. */
function inOrder(): string[] {
  const events = received.filter((one, at) => one.id !== received[at - 1]?.id);
  expect(new Set(events.map((one) => one.id)).size).toBe(events.length);
  return events.map(({ type }) => type);
}

test('deliver events: whenever the server crashes, each is had in order, and again under the same id at most', async () => {
  const twoFailed = () => received.filter(({ type }) => type === 'two').length > 1;
  const answer = (type: string) => (type === 'two' && !twoFailed() ? 500 : 204);
  const points = await everyCommit({
    prepare,
    async work(stores) {
      received = [];
      await deliver(stores, answer);
    },
    async after({ stores }) {
      await deliver(stores, answer);

      expect(inOrder()).toEqual(['one', 'two', 'three']);
      expect(received.length).toBeLessThanOrEqual(5);
    },
  });

  // A position behind each of three events, and a failure of the second.
  const around = (what: string) => [`before ${what}`, `after ${what}`];
  const commits = ['commit', 'update webhook', 'commit', 'commit'];
  expect(points).toEqual(commits.flatMap(around));
});

test('disable a webhook whose receiver is gone: wherever the server crashes, the record says so as soon as it is', async () => {
  const answer = (type: string) => (type === 'two' ? 410 : 204);
  const states: unknown[] = [];
  const points = await everyCommit({
    prepare,
    async work(stores) {
      received = [];
      await deliver(stores, answer);
    },
    async after({ stores, point }) {
      const disabled = async () => (await stores.webhooks.byId(organizationId, id))?.disabled;
      const recorded = async () =>
        (await stores.audit.newest(10)).filter(({ action }) => action === 'webhook.disable').length;
      const left = { disabled: await disabled(), recorded: await recorded() };
      states.push([point, left.disabled?.because]);
      await deliver(stores, answer);

      expect(left.recorded).toBe(left.disabled === undefined ? 0 : 1);
      expect(await disabled()).toMatchObject({ because: 'gone' });
      expect(await recorded()).toBe(1);
      expect(inOrder()).toEqual(['one', 'two']);
    },
  });

  expect(points).toEqual(['before commit', 'after commit', 'before commit', 'after commit']);
  expect(states.slice(-2)).toEqual([
    ['before commit', undefined],
    ['after commit', 'gone'],
  ]);
});
