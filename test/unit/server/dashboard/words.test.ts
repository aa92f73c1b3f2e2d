import { expect, test } from 'vitest';

import { AdministrationRefusal, invalidField } from '#server/administration/administration-refusal';
import { actsFor } from '#server/dashboard/client-routes';
import { counted } from '#server/dashboard/counted';
import { lostWith } from '#server/dashboard/lost-with';
import { refusedForm } from '#server/dashboard/refused-form';

const labels = { name: { field: 'name', label: 'The name' } };

test('things are counted in words', () => {
  expect([0, 1, 2].map((count) => counted(count, 'API key'))).toEqual([
    'no API keys',
    '1 API key',
    '2 API keys',
  ]);
});

test('what stops working with a server is counted, and what is not there is not said', () => {
  expect(lostWith({ activeClients: 1, activeKeys: 3, activeGrants: 0 })).toEqual([
    '1 OAuth client opens it; it loses access now.',
    '3 API keys open it; they lose access now.',
  ]);
  expect(lostWith({ activeClients: 0, activeKeys: 0, activeGrants: 0 })).toHaveLength(1);
});

test('a refusal stands beside the field that it is about, as a sentence', () => {
  expect(refusedForm(invalidField('name', 'is empty'), labels)).toEqual([
    { field: 'name', message: 'The name is empty.' },
  ]);
  const taken = new AdministrationRefusal('conflict', 'there is a server acme/sales already');
  expect(refusedForm(taken, labels, 'name')).toEqual([
    { field: 'name', message: 'There is a server acme/sales already.' },
  ]);
});

test('what no field can say goes on to the error page', () => {
  const refusal = new AdministrationRefusal('forbidden', 'as viewer you may not do this');

  expect(() => refusedForm(refusal, labels, 'name')).toThrow(refusal);
});

test('a client that never asks anybody acts for itself, and another for nobody until somebody lets it', () => {
  const uris = ['https://app.example/callback'];

  expect([actsFor(0, []), actsFor(0, uris), actsFor(2, uris)]).toEqual([
    'itself',
    'nobody yet',
    '2 people',
  ]);
});
