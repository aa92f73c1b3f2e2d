import { expect, test } from 'vitest';

import { noteToolDefinitions } from '#server/db/tool-definitions';
import { toolDefinition } from '#server/tools/tool-definition';
import { changedLines } from '#server/web/dashboard/tools';
import { pageApp } from '#support/page-app';

test('changed tools: twenty are compared at once, and the rest are counted', async () => {
  await using app = await pageApp();
  const { stores, clock } = app.server;
  const told = (description: string) =>
    Array.from({ length: 22 }, (_, place) => place).flatMap(
      (place) => toolDefinition({ name: `tool-${place}`, description }) ?? [],
    );
  await noteToolDefinitions(stores.db, 'srv_sales', told('before'), clock.now());
  await noteToolDefinitions(stores.db, 'srv_sales', told('after'), clock.now());
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const { text } = await app.get('/dashboard/acme/servers/sales/tools', cookie);

  expect(text.match(/<pre class="change">/g)).toHaveLength(20);
  expect(text).toContain('2 more tools have changed');
});

const shown = (before: string, after: string) =>
  changedLines(before, after).map(({ sign, text }) => sign + text);

test('changed lines: unchanged lines stand beside removed and added ones', () => {
  expect(shown('{\n  a\n  b\n}', '{\n  a\n  c\n}')).toEqual([' {', '   a', '−  b', '+  c', ' }']);
});

test('changed lines: texts with little in common are shown one after the other', () => {
  const lines = (word: string) => Array.from({ length: 3_000 }, (_, i) => word + i).join('\n');
  const result = shown(lines('a'), lines('b'));

  expect(result).toHaveLength(6_000);
  expect([result[0], result[3_000]]).toEqual(['−a0', '+b0']);
});
