import { expect, test, vi } from 'vitest';
import { z } from 'zod';

import { runningServer, type RunningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';
import { verified, webhookReceiver } from '#support/webhook-receiver';
import { patient } from '#support/patient';

const allowed = ['--outbound-host', '127.0.0.1', '--log-level', 'debug'];
const made = z.object({ id: z.string(), secret: z.string() });
const listed = z.array(
  z.object({
    id: z.string(),
    status: z.string(),
    next_attempt_at: z.number().nullable(),
    last_success_at: z.number().nullable(),
    last_failure: z.string().nullable(),
    disabled_because: z.string().nullable(),
  }),
);

/** A receiver, and what a test does with a server that sends to it. Each test has its own, as they run at the same time. */
async function webhooks() {
  await using stack = new AsyncDisposableStack();
  const dataDir = stack.use(await temporaryFolder('webhooks')).path;
  const receiver = stack.use(await webhookReceiver());
  const started = stack.move();
  const start = async (args = allowed) => started.use(await runningServer({ args, dataDir }));
  return {
    receiver,
    start,
    /** A server with the organization acme. */
    acme: async (args?: string[]) => {
      const server = await start(args);
      await server.command('organization', 'create', 'acme');
      return server;
    },
    hook: async (server: RunningServer, ...words: string[]) => {
      const url = `${receiver.origin}/in/path-of-its-own?and=query-of-its-own`;
      const at = ['--url', url, '--outbound-host', '127.0.0.1'];
      return made.parse(await server.command('webhook', 'create', 'acme', ...at, ...words));
    },
    groups: () => receiver.deliveries.filter(({ type }) => type === 'group.create'),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** Causes an event `group.create`, in another process than the server's. */
const happen = (server: RunningServer, name: string) =>
  server.command('group', 'create', 'acme', name);
const stateOf = async (server: RunningServer) => {
  const [state] = listed.parse(await server.command('webhook', 'list', 'acme'));
  return state ?? expect.fail('there is no webhook');
};
const only = ['--action', 'group.'];

test.concurrent('webhook: events arrive in order, signed, and equal to the audit export', async () => {
  await using at = await webhooks();
  const { receiver, acme, hook } = at;
  const server = await acme();
  const { secret } = await hook(server);
  await happen(server, 'one');
  await happen(server, 'two');
  await receiver.has(3);
  const delivered = [...receiver.deliveries];
  const [first] = delivered;
  const lines = await server.commandText('audit', 'export', 'acme');
  const exported = lines
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line));

  expect(delivered.map(({ type }) => type)).toEqual([
    'webhook.create',
    'group.create',
    'group.create',
  ]);
  const addresses = { actor_email: null, target_email: null };
  for (const delivery of delivered) {
    expect(verified(secret, delivery)).toMatchObject({ type: delivery.type });
    expect(exported).toContainEqual({ ...delivery.data, ...addresses });
    expect(delivery.path).toBe('/in/path-of-its-own?and=query-of-its-own');
  }
  expect(first && (() => verified(`whsec_${'A'.repeat(43)}=`, first))).toThrow('signature');
  expect(server.program.stderr).not.toContain('of-its-own');
  expect(server.program.stderr).not.toContain(secret.slice(6));
});

test.concurrent('webhook: a delivery answered by 500 is retried, and later events wait for it', async () => {
  await using at = await webhooks();
  const { receiver, acme, hook, groups } = at;
  const server = await acme();
  receiver.answer({ status: 500 });
  await hook(server, ...only);
  await happen(server, 'one');
  await happen(server, 'two');
  await receiver.has(3);

  expect(groups().map(({ data }) => data['target'])).toEqual([
    groups()[0]?.data['target'],
    groups()[0]?.data['target'],
    groups()[2]?.data['target'],
  ]);
  expect(groups()[1]?.id).toBe(groups()[0]?.id);
  expect(groups()[2]?.id).not.toBe(groups()[0]?.id);
});

test.concurrent('webhook: a server killed before it stored an answer sends the event again, under the same id', async () => {
  await using at = await webhooks();
  const { receiver, start, acme, hook } = at;
  const first = await acme();
  receiver.answer({ status: 204 }, 'hold');
  const { secret } = await hook(first, ...only);
  await happen(first, 'one');
  await happen(first, 'two');
  await happen(first, 'three');
  await receiver.has(2);
  first.program.kill('SIGKILL');
  await first.program.exited;
  const second = await start();
  await receiver.has(4);
  await happen(second, 'four');
  await receiver.has(5);
  const ids = receiver.deliveries.map(({ id }) => id);

  expect(ids[2]).toBe(ids[1]);
  expect(new Set(ids).size).toBe(4);
  for (const delivery of receiver.deliveries)
    expect(() => verified(secret, delivery)).not.toThrow();
});

test.concurrent('webhook: a stopping server does not wait for an answer, and sends the event again at its next start', async () => {
  await using at = await webhooks();
  const { receiver, start, acme, hook } = at;
  const first = await acme();
  receiver.answer('hold');
  await hook(first, ...only);
  await happen(first, 'one');
  await receiver.has(1);
  first.program.kill('SIGTERM');
  const { code } = await first.program.exited;
  const second = await start();
  await receiver.has(2);

  expect(code).toBe(0);
  expect(receiver.deliveries[1]?.id).toBe(receiver.deliveries[0]?.id);
  await vi.waitFor(
    async () => expect(await stateOf(second)).toMatchObject({ last_failure: null }),
    patient,
  );
});

test.concurrent('webhook: Retry-After is honoured, and 410 disables the webhook', async () => {
  await using at = await webhooks();
  const { receiver, acme, hook } = at;
  const server = await acme();
  receiver.answer({ status: 503, headers: { 'retry-after': '600' } }, { status: 410 });
  const { id } = await hook(server, ...only);
  await happen(server, 'one');
  await vi.waitFor(async () => expect((await stateOf(server)).status).toBe('retrying'), patient);
  const waiting = await stateOf(server);
  const sentAt = Number(receiver.deliveries[0]?.headers['webhook-timestamp']);
  await server.command('webhook', 'enable', 'acme', id);
  await receiver.has(2);
  await vi.waitFor(async () => expect((await stateOf(server)).status).toBe('disabled'), patient);
  const record = await server.command('audit', 'list', 'acme', '--action', 'webhook.disable');

  expect(waiting.last_failure).toBe('answered 503');
  expect((waiting.next_attempt_at ?? 0) - sentAt).toBeGreaterThanOrEqual(600);
  expect(await stateOf(server)).toMatchObject({ disabled_because: 'gone' });
  expect(record).toMatchObject([{ actor: 'system', target: `webhook:${id} gone` }]);
});

test.concurrent('webhook: a redirect is not followed', async () => {
  await using at = await webhooks();
  const { receiver, acme, hook } = at;
  await using elsewhere = await webhookReceiver();
  const server = await acme();
  receiver.answer({ status: 307, headers: { location: `${elsewhere.origin}/` } });
  const { id } = await hook(server, ...only);
  await happen(server, 'one');
  await vi.waitFor(async () => expect((await stateOf(server)).status).toBe('retrying'), patient);
  const failed = await stateOf(server);
  // Instead of waiting for the next attempt.
  await server.command('webhook', 'enable', 'acme', id);
  await receiver.has(2);

  expect(elsewhere.deliveries).toEqual([]);
  expect(failed.last_failure).toBe('answered 307; redirects are not followed');
});

test.concurrent('76: webhook: a host that the operator does not allow is never connected to', async () => {
  await using at = await webhooks();
  const { receiver, acme } = at;
  const server = await acme([]);
  const create = (url: string) => server.command('webhook', 'create', 'acme', '--url', url);
  const port = receiver.port;
  await expect(create(`http://127.0.0.1:${port}/`)).rejects.toThrow('url is not an https URL');
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '2130706433', '0x7f.1', '[::ffff:7f00:1]'])
    await expect(create(`https://${host}:${port}/`)).rejects.toThrow('not on the public internet');
  const named = ['--url', `https://localhost:${port}/`, '--outbound-host', 'localhost', ...only];
  await server.command('webhook', 'create', 'acme', ...named);
  await happen(server, 'one');
  await vi.waitFor(async () => expect((await stateOf(server)).status).toBe('retrying'), patient);

  expect((await stateOf(server)).last_failure).toBe(
    'has a host that was not found, or is not on the public internet',
  );
  expect(receiver.deliveries).toEqual([]);
});
