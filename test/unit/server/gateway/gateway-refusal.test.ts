import { expect, test } from 'vitest';

import { auditSentences } from '#server/audit/sentences';
import {
  auditedRefusal,
  GatewayRefusal,
  isDenial,
  type RefusalCode,
} from '#server/gateway/gateway-refusal';
import type { Suspension } from '#server/model/suspension';
import { someServer } from '#support/some-admission';

const request = { id: 'r1', organization: 'acme', server: 'sales' };

const actionOf = (code: RefusalCode) =>
  auditedRefusal(new GatewayRefusal(code), request, 'client:client_a:user_dana')?.action;

test.each<[RefusalCode, string]>([
  ['insufficient_scope', 'call.insufficient-scope'],
  ['unknown_tool', 'call.unknown-tool'],
  ['hidden_tool', 'call.unknown-tool'],
  ['withheld_tool', 'call.unknown-tool'],
  ['closed_tool', 'call.unknown-tool'],
  ['unknown_prompt', 'call.unknown-prompt'],
  ['closed_prompt', 'call.unknown-prompt'],
  ['unknown_resource', 'call.unknown-resource'],
  ['closed_resource', 'call.unknown-resource'],
  ['too_many_requests', 'call.too-many-requests'],
  ['not_connected', 'call.not-connected'],
  ['key_missing', 'call.key-missing'],
  ['no_person', 'call.no-person'],
])('a call that counts as denied in usage is in the audit log: %s', (code, action) => {
  expect(isDenial(new GatewayRefusal(code))).toBe(true);
  expect(actionOf(code)).toBe(action);
  expect(Object.hasOwn(auditSentences, action)).toBe(true);
});

test.each<[Suspension, string]>([
  ['server', 'call.server-disabled'],
  ['self_registered', 'call.self-registered-off'],
  ['latchkey_proxy', 'call.latchkey-proxy-off'],
  ['owner_left', 'call.owner-left'],
])('a call with a suspended credential is in the audit log with its cause: %s', (by, action) => {
  const credential = { type: 'key', id: 'key_a' } as const;
  const call = { by, endpoint: someServer(), principal: 'key:key_a', credential };
  const refusal = new GatewayRefusal('suspended', { suspended: call });

  expect(auditedRefusal(refusal, request, 'key:key_a')?.action).toBe(action);
  expect(Object.hasOwn(auditSentences, action)).toBe(true);
});

test.each<RefusalCode>(['bad_params', 'unknown_method', 'unknown_session', 'too_large'])(
  'a mistake of the caller is neither counted as denied nor in the audit log: %s',
  (code) => {
    expect(isDenial(new GatewayRefusal(code))).toBe(false);
    expect(actionOf(code)).toBeUndefined();
  },
);
