import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { nodeCluster, type NodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';
import { suite } from '#support/suite';
import { type Visitor, visitor } from '#support/visitor';
import { webhookReceiver, type WebhookReceiver } from '#support/webhook-receiver';

await suite('postgres', 'what one node writes, at the others', () => {
  const stack = new AsyncDisposableStack();
  let cluster: NodeCluster;
  let receiver: WebhookReceiver;
  let owner: Visitor;

  beforeAll(async () => {
    receiver = stack.use(await webhookReceiver());
    cluster = stack.use(await nodeCluster({ size: 2, args: ['--outbound-host', '127.0.0.1'] }));
    owner = visitor(cluster.base);
    const setUp = /\/set-up\/\S+/.exec(cluster.program.stdout)?.[0] ?? '';
    const password = 'correct horse battery';
    const fields = { organization: 'acme', email: 'dana@example.com', password };
    await owner.submit(setUp, { ...fields, repeated: password });
  });
  afterAll(() => stack.disposeAsync());

  const at = (node: number) => ({ 'x-test-node': cluster.nodes[node]?.name ?? '' });
  const createServer = (name: string) =>
    cluster.command(['server', 'create', `acme/${name}`, '--demo']);
  const overview = async (node: number) => (await owner.get('/dashboard/acme', at(node))).text();

  test('a page lists what was created a moment ago, at every node', async () => {
    for (const name of ['first', 'second', 'third', 'fourth']) {
      await Promise.all([overview(0), overview(1)]);

      await createServer(name);

      expect(await overview(0)).toContain(name);
      expect(await overview(1)).toContain(name);
    }
  });

  test('a live page at one node is notified of a change at another', async () => {
    const stream = await owner.get('/dashboard/acme/live', at(1));
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const read = (async () => {
      for (;;) {
        const part = await reader?.read();
        if (!part || part.done) return;
        text += part.value;
      }
    })();
    await vi.waitFor(() => expect(text).toContain('retry'), patient);
    const page = '/dashboard/acme/new-server';
    const fields = { csrf_token: await owner.csrfToken(page), name: 'live', kind: 'demo' };

    expect((await owner.post(page, fields, at(0))).status).toBe(303);

    await vi.waitFor(() => expect(text).toContain('event: written'), patient);
    await reader?.cancel();
    await read;
  });

  test('an event is sent by one node, in order, and by another one if that is killed', async () => {
    const { masterKeyFile: key } = cluster;
    const happen = async (name: string) => {
      const text = await cluster.command(['group', 'create', 'acme', name, '--json']);
      return `group:${z.object({ id: z.string() }).parse(JSON.parse(text)).id}`;
    };
    const words = ['webhook', 'create', 'acme', '--url', `${receiver.origin}/in`];
    const more = ['--outbound-host', '127.0.0.1', '--action', 'group.', '--master-key-file', key];
    await cluster.command([...words, ...more]);
    const happened: string[] = [];
    for (let number = 0; number < 10; number += 1) happened.push(await happen(`group-${number}`));
    await receiver.has(happened.length);
    const sent = receiver.deliveries.map(({ data }) => data['target']);
    const ids = new Set(receiver.deliveries.map(({ id }) => id));

    receiver.answer('hold');
    await happen('held');
    await receiver.has(happened.length + 1);
    cluster.program.kill('SIGKILL');
    await Promise.all(cluster.nodes.map(({ program }) => program.exited));
    await cluster.add();
    await receiver.has(happened.length + 2);

    expect(sent).toEqual(happened);
    expect(ids.size).toBe(happened.length);
    const [held, again, ...others] = receiver.deliveries.slice(happened.length);
    expect(again).toMatchObject({ id: held?.id, data: held?.data });
    expect(others).toEqual([]);
  });
});
