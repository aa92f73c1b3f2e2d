import { expect, test } from 'vitest';

import { fakeClock } from '#support/fake-clock';
import { grantingServer, launcher } from '#support/granting-server';
import { runProgram } from '#support/processes';
import { webhookReceiver } from '#support/webhook-receiver';

test('37: webhook: the reuse of a refresh token after the grace period is sent', async () => {
  const clock = fakeClock();
  await using receiver = await webhookReceiver();
  await using server = await grantingServer({ clock, outboundHosts: ['127.0.0.1'] });
  const words = ['webhook', 'create', 'acme', '--action', 'refresh-token.'];
  const at = ['--url', `${receiver.origin}/in`, '--outbound-host', '127.0.0.1'];
  const args = [launcher, ...words, ...at, '--data-dir', server.dataDir];
  const { code } = await runProgram(process.execPath, { args });
  const { refreshToken } = await server.signIn(await server.browser());
  await server.refresh(refreshToken);
  await clock.advance(31);
  const { status } = await server.refresh(refreshToken);
  await receiver.has(1);
  const [delivery] = receiver.deliveries;

  expect([code, status]).toEqual([0, 400]);
  expect(delivery).toMatchObject({
    type: 'refresh-token.reuse',
    data: { actor: `client:${server.client.id}`, organization: 'acme', outcome: 'refused' },
  });
  expect(delivery?.body).not.toContain(refreshToken);
});
