import { expect, test } from 'vitest';

import { domainRecord } from '#server/accounts/provider-setup';
import { loopbackProviders } from '#support/provider-setup';
import { stillClock } from '#support/still-clock';

const setup = loopbackProviders(stillClock(), new Map([['_latchkey.slow.example', 'ETIMEOUT']]));

test.each([
  ['http://id.example', 'is not an https URL'],
  ['ftp://id.example', 'is not an https URL'],
  ['id.example', 'is not an https URL'],
  ['https://user:pw@id.example', 'must not contain a user, a password, a query or a fragment'],
  ['https://10.0.0.1', 'is not on the public internet'],
  ['https://localhost:9000', 'is not on the public internet'],
  ['https://169.254.169.254/latest', 'is not on the public internet'],
  ['https://login.microsoftonline.com/common/v2.0', 'stands for the directories of many companies'],
  ['https://login.microsoftonline.com/Organizations/v2.0', 'stands for the directories'],
])('148: issuer %s: %s', async (issuer, problem) => {
  expect(await setup.problemOf(issuer)).toContain(problem);
});

test('148: an issuer at a host that the operator named is valid, and so is one on http there', async () => {
  expect(await setup.problemOf('http://127.0.0.1:9000')).toBeUndefined();
});

test('domain: no answer is not an absent record', async () => {
  const check = (domain: string) => setup.checkDomain({ domain, verificationToken: 't' });

  expect([await check('slow.example'), await check('none.example')]).toEqual([
    'unreachable',
    'absent',
  ]);
  expect(domainRecord({ domain: 'a.example', verificationToken: 't' })).toEqual({
    name: '_latchkey.a.example',
    value: 'latchkey-domain=t',
  });
});
