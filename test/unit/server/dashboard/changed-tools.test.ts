import { expect, test } from 'vitest';

import { toolDefinition } from '#server/tools/tool-definition';
import { pageApp } from '#support/page-app';

test('of many tools that changed, twenty are compared at once, and the rest counted', async () => {
  await using app = await pageApp();
  const { stores, clock } = app.server;
  const told = (description: string) =>
    Array.from({ length: 22 }, (_, place) => place).flatMap(
      (place) => toolDefinition({ name: `tool-${place}`, description }) ?? [],
    );
  await stores.definitions.note('srv_sales', told('before'), clock.now());
  await stores.definitions.note('srv_sales', told('after'), clock.now());
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const { text } = await app.get('/dashboard/acme/servers/sales/tools', cookie);

  expect(text.match(/<pre class="change">/g)).toHaveLength(20);
  expect(text).toContain('2 more tools have changed');
});
