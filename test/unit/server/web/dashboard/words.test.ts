import { expect, test } from 'vitest';

import { AdministrationRefusal, invalidField } from '#server/admin/refusal';
import { actsFor } from '#server/web/dashboard/clients';
import { counted } from '#server/web/dashboard/questions';
import { lostWith } from '#server/web/dashboard/server-settings';
import { refusedForm } from '#server/web/dashboard/forms';

const labels = { name: { field: 'name', label: 'The name' } };

test('counted: a number and its noun agree', () => {
  expect([0, 1, 2].map((count) => counted(count, 'API key'))).toEqual([
    'no API keys',
    '1 API key',
    '2 API keys',
  ]);
});

test('lostWith: what stops working with a server is counted, and zeros are left out', () => {
  const nothing = { activeClients: 0, activeKeys: 0, activeGrants: 0, collections: [] };

  expect(lostWith({ ...nothing, activeClients: 1, activeKeys: 3 })).toEqual([
    '1 OAuth client uses it; it loses access immediately.',
    '3 API keys grant access to it; they stop working immediately.',
  ]);
  expect(lostWith(nothing)).toHaveLength(1);
});

test('lostWith: the collections that lose a server are named, five at most', () => {
  const none = { activeClients: 0, activeKeys: 0, activeGrants: 0 };
  const lost = (...collections: string[]) => lostWith({ ...none, collections }).at(-1);

  expect(lost('desk')).toBe(
    'Its tools, prompts and resources disappear from the collection desk immediately.',
  );
  expect(lost('a', 'b', 'c', 'd', 'e', 'f', 'g')).toContain(
    'the collections a, b, c, d, e and 2 more immediately',
  );
});

test('refusedForm: a refusal becomes a sentence beside its field', () => {
  expect(refusedForm(invalidField('name', 'is empty'), labels)).toEqual([
    { field: 'name', message: 'The name is empty.' },
  ]);
  const taken = new AdministrationRefusal('conflict', 'there is a server acme/sales already');
  expect(refusedForm(taken, labels, 'name')).toEqual([
    { field: 'name', message: 'There is a server acme/sales already.' },
  ]);
});

test('refusedForm: a refusal about no field is thrown on', () => {
  const refusal = new AdministrationRefusal(
    'forbidden',
    'your role in acme (viewer) does not allow this',
  );

  expect(() => refusedForm(refusal, labels, 'name')).toThrow(refusal);
});

test('actsFor: a client without redirect URIs acts for itself, another for the people who allowed it', () => {
  const uris = ['https://app.example/callback'];

  expect([actsFor(0, []), actsFor(0, uris), actsFor(2, uris)]).toEqual([
    'Itself',
    'No one yet',
    '2 people',
  ]);
});
