import { expect, test } from 'vitest';

import { settingsRead, settingsUpdate } from '#server/admin/organizations';
import { administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const acme = { organization: 'acme' };

test('only an owner changes how long calls are kept, and the audit log has the number', async () => {
  await using at = await administered();
  const [owner, admin] = [await at.person('owner'), await at.person('admin')];
  const keep = (callRetentionDays: number, by = owner) =>
    at.perform(settingsUpdate, { ...acme, callRetentionDays }, by);

  const { callRetentionDays: before } = await at.perform(settingsRead, acme, admin);
  await expect(keep(30, admin)).rejects.toMatchObject({ code: 'forbidden' });
  const { callRetentionDays: after } = await keep(30);

  expect([before, after]).toEqual([90, 30]);
  expect(await at.perform(settingsRead, { organization: 'other' })).toMatchObject({
    callRetentionDays: 90,
  });
  expect(await newestEvents(at.stores.db, 1)).toMatchObject([
    {
      action: 'organization.change-settings',
      target: 'organization:acme {"callRetentionDays":30}',
    },
  ]);
});

test.each([0, 3651, 1.5, '', null])(
  'calls cannot be kept for %j days',
  async (callRetentionDays) => {
    await using at = await administered();

    await expect(at.perform(settingsUpdate, { ...acme, callRetentionDays })).rejects.toMatchObject({
      code: 'invalid',
    });
  },
);
