import { expect, test } from 'vitest';

import type { Role } from '#server/model/roles';
import { missingProof } from '#server/model/sign-in-proof';

const provider = { organizationId: 'org_1' };

test.each<
  [
    role: Role,
    factors: 1 | 2,
    through: object | undefined,
    rules: string,
    missing: string | undefined,
  ]
>([
  ['member', 1, undefined, '', undefined],
  ['member', 1, undefined, 'second factor', 'second-factor'],
  ['member', 2, undefined, 'second factor', undefined],
  ['member', 1, provider, 'second factor', 'second-factor'],
  ['member', 2, undefined, 'single sign-on', 'single-sign-on'],
  ['admin', 2, undefined, 'single sign-on', 'single-sign-on'],
  ['owner', 1, undefined, 'single sign-on', 'single-sign-on'],
  ['owner', 2, undefined, 'single sign-on', undefined],
  ['member', 1, provider, 'single sign-on', undefined],
  ['member', 1, undefined, 'both', 'single-sign-on'],
  ['member', 1, provider, 'both', 'second-factor'],
  ['owner', 2, undefined, 'both', undefined],
])(
  '%s with %i factors, through %o, with the rules "%s": %s',
  (role, factors, through, rules, missing) => {
    const secondFactorRequired = rules === 'second factor' || rules === 'both';
    const singleSignOnRequired = rules === 'single sign-on' || rules === 'both';

    expect(
      missingProof({ factors, through }, role, { secondFactorRequired, singleSignOnRequired }),
    ).toBe(missing);
  },
);
