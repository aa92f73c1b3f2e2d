import { randomBytes } from 'node:crypto';

import { beforeEach, expect, test } from 'vitest';

import type { AuditEvent } from '#server/audit/audit-log';
import type { GuardedRequest } from '#server/outbound/guarded-fetch';
import { OutboundError } from '#server/outbound/outbound-error';
import { masterKey } from '#server/signing/master-key';
import {
  registrationPurpose,
  type EndedRegistration,
} from '#server/upstream-access/client-registration';
import { endRegistrations } from '#server/upstream-access/end-registrations';
import { stillClock, type StillClock } from '#support/still-clock';

const sealing = masterKey(randomBytes(32));
const url = 'https://as.example/register/c1';
const registration = {
  url,
  sealedToken: sealing.seal(registrationPurpose({ serverId: 'srv', clientId: 'c1' }), 'r1'),
};
const access = {
  id: 'upa_1',
  serverId: 'srv',
  kind: 'authorization_code',
  url: 'https://mcp.example/mcp',
  metadata: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
  resource: undefined,
  clientId: 'c1',
  sealedClientSecret: undefined,
  scopes: [],
  vouchedHosts: [],
  createdAt: 1,
  registration,
} as const;

let clock: StillClock;
let audited: AuditEvent[];
let asked: { url: string; request: GuardedRequest | undefined }[];
let rows: Map<string, { row: EndedRegistration; at: number }>;

beforeEach(() => {
  clock = stillClock();
  [audited, asked] = [[], []];
  const row = { access, registration, organization: 'acme', server: 'web', attempts: 0 };
  rows = new Map([[access.id, { row, at: 0 }]]);
});

/** Tells all that is due to a server that answers so. */
const told = (answer: () => Response | Promise<never>) =>
  endRegistrations({
    registrations: {
      due: async (now) => [...rows.values()].flatMap(({ row, at }) => (at <= now ? [row] : [])),
      async postpone({ accessId, attempts }, at) {
        const known = rows.get(accessId);
        if (known?.row.attempts !== attempts) return false;
        rows.set(accessId, { row: { ...known.row, attempts: attempts + 1 }, at });
        return true;
      },
      remove: async (id) => void rows.delete(id),
    },
    askFor: () => async (to, request) => {
      asked.push({ url: to, request });
      return answer();
    },
    sealing,
    audit: { append: async (event) => void audited.push(event) },
    clock,
  });
const status = (code: number) => () => new Response(null, { status: code });
const outcomes = () => audited.map(({ action, target, outcome }) => [action, target, outcome]);
const action = 'upstream-client.deregister';

test('the registration is deleted where it is kept, written down, and forgotten', async () => {
  await told(status(204));

  const headers = { authorization: 'Bearer r1' };
  expect(asked).toEqual([{ url, request: { method: 'DELETE', headers } }]);
  expect(outcomes()).toEqual([[action, 'server:acme/web', 'done']]);
  expect(rows.size).toBe(0);
});

test.each([401, 403, 404, 405])(
  'a server that answers %i removes no client, and is not asked again',
  async (code) => {
    await told(status(code));

    expect(outcomes()).toEqual([[action, 'server:acme/web', 'refused']]);
    expect(rows.size).toBe(0);
  },
);

test.each([
  ['has trouble', status(503)],
  ['has enough', status(429)],
  ['cannot be reached', () => Promise.reject(new OutboundError('unreachable', 'down'))],
])(
  'a server that %s is asked again with growing pauses, and given up in the end',
  async (_, no) => {
    await told(no);
    clock.advance(59);
    await told(no);

    expect([asked.length, rows.size]).toEqual([1, 1]);

    clock.advance(1);
    await told(status(204));

    expect([asked.length, rows.size]).toEqual([2, 0]);
    expect(outcomes().map(([, , outcome]) => outcome)).toEqual(['refused', 'done']);
  },
);

test('a server that is away for good is given up after ten tries', async () => {
  for (let tries = 0; tries < 15; tries += 1) {
    await told(status(503));
    clock.advance(60 * 2 ** 10);
  }

  expect([asked.length, rows.size]).toEqual([10, 0]);
});
