import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { natsUrl } from '#support/requirements';
import { suite } from '#support/suite';
import { verified, type WebhookReceiver, webhookReceiver } from '#support/webhook-receiver';

const made = z.object({ secret: z.string() });

await suite(['postgres', 'nats'], 'webhooks of several nodes', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let receiver: WebhookReceiver;

  beforeAll(async () => {
    receiver = stack.use(await webhookReceiver());
    const args = ['--nats-url', natsUrl(), '--outbound-host', '127.0.0.1'];
    cluster = stack.use(await nodeCluster({ size: 3, args }));
    await cluster.command(['organization', 'create', 'acme']);
  });
  afterAll(() => stack.disposeAsync());

  test('all events arrive, signed and in their order, while nodes are killed and added', async () => {
    const words = ['--url', `${receiver.origin}/in`, '--outbound-host', '127.0.0.1'];
    const action = ['--action', 'group.', '--json'];
    const created = await cluster.command([
      'webhook',
      'create',
      'acme',
      ...words,
      '--master-key-file',
      cluster.masterKeyFile,
      ...action,
    ]);
    const { secret } = made.parse(JSON.parse(created));
    const names = Array.from({ length: 40 }, (_, at) => `group-${at}`);

    for (const [at, name] of names.entries()) {
      await cluster.command(['group', 'create', 'acme', name]);
      if (at !== 10 && at !== 25) continue;
      const node = cluster.nodes[at === 10 ? 0 : 1];
      node?.program.kill('SIGKILL');
      await node?.program.exited;
      await cluster.add();
    }
    const ids = () => [...new Set(receiver.deliveries.map(({ id }) => id))];
    await expect.poll(() => ids().length, { timeout: 60_000 }).toBe(names.length);

    const sequence = receiver.deliveries.map(({ id }) => ids().indexOf(id));
    // A killed node may have delivered an event without being able to say so: it comes again, before any later one.
    expect(sequence).toEqual(sequence.toSorted((one, other) => one - other));
    const targets = ids().map((id) => receiver.deliveries.find((one) => one.id === id)?.data);
    const exported = await cluster.command(['audit', 'export', 'acme', '--action', 'group.create']);
    const recorded = exported
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    expect(recorded).toHaveLength(names.length);
    const addresses = { actor_email: null, target_email: null };
    for (const target of targets) expect(recorded).toContainEqual({ ...target, ...addresses });
    for (const delivery of receiver.deliveries) verified(secret, delivery);
  });
});
