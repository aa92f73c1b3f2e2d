import { expect, test } from 'vitest';

import { contentPurpose } from '#server/activity/content-log';
import { callContent } from '#server/admin/call-contents';
import { callList } from '#server/admin/calls';
import { auditorGrant } from '#server/admin/people';
import type { Actor } from '#server/admin/operation';
import { insertContents } from '#server/db/call-contents';
import { findOrganization } from '#server/db/organizations';
import { masterKey } from '#server/secrets/master-key';
import { administered } from '#support/administered';
import { recordCalls } from '#support/made-calls';

const acme = { organization: 'acme' };

/** Two calls with stored arguments; the arguments that are stored for the second one are sealed for the first one. */
async function stored() {
  const at = await administered();
  const owner = await at.person('owner');
  const { id: organizationId = '' } = (await findOrganization(at.stores.db, 'acme')) ?? {};
  await recordCalls(at.stores.db, at.clock.now() * 1000, [{ subject: 'one' }, { subject: 'two' }]);
  at.clock.advance(10);
  const { items } = await at.perform(callList, acme);
  const [second, first] = items;
  const place = { organizationId, targetId: first?.server.id ?? '', id: first?.id ?? '' };
  // The key of `administered`.
  const key = masterKey(new Uint8Array(32));
  const sealed = key.seal(contentPurpose(place, 'arguments'), '{"a":1}');
  const content = { kind: 'arguments', sealed, isCut: false } as const;
  await insertContents(at.stores.db, [
    { ...place, ...content },
    { ...place, id: second?.id ?? '', ...content },
  ]);
  const read = (callId: string | undefined, as?: Actor) =>
    at.perform(callContent, { ...acme, callId }, as);
  return { at, owner, first, second, read };
}

test('stored arguments: an owner reads them only with the Auditor right', async () => {
  const { at, owner, first, read } = await stored();
  await using _ = at;

  await expect(read(first?.id, owner)).rejects.toMatchObject({ code: 'forbidden' });

  await at.perform(auditorGrant, { ...acme, userId: 'user_1' });
  expect(await read(first?.id, owner)).toMatchObject({ arguments: { text: '{"a":1}' } });
});

test('stored arguments: what is sealed for a call is not readable as that of another one', async () => {
  const { at, second, read } = await stored();
  await using _ = at;

  await expect(read(second?.id)).rejects.toThrow('unable to authenticate');
});
