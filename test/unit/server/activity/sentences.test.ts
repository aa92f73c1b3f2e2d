import { expect, test } from 'vitest';

import { failureOf } from '#server/activity/sentences';
import { callEnds } from '#server/model/calls';

const of = (end: (typeof callEnds)[number], error?: string, account = 'none' as const) =>
  failureOf({ end, error, account, person: undefined });

test('failure of a call: one that went well or that its caller cancelled has none, any other has', () => {
  const without = callEnds.filter((end) => of(end) === undefined);

  expect(without).toEqual(['ok', 'cancelled']);
});

test.each([
  ['refused', 'insufficient_scope', 'the credential lacks the scope for it', 'credential'],
  ['refused', 'suspended', 'a setting suspends this caller', 'access'],
  ['refused', 'unknown_tool', 'the server has no such tool', 'tools'],
  [
    'refused',
    'too_many_requests',
    'the caller made more calls than the limit of this server allows',
    'settings',
  ],
  [
    'refused',
    'not_connected',
    'the person has not connected an account of their own at the upstream',
    'account',
  ],
  ['upstream_error', 'upstream_unreachable', 'the upstream cannot be reached', 'settings'],
  ['upstream_error', 'agent_offline', 'the agent that reaches the server is offline', 'settings'],
  ['upstream_error', 'too_slow', 'it took longer than this server allows', 'settings'],
  ['upstream_error', 'upstream_token', 'the upstream rejected the connected account', 'account'],
  [
    'protocol_error',
    '-32602',
    'the server rejected the arguments, or knows no such tool, prompt or resource',
    'tools',
  ],
  ['protocol_error', '-1', 'the server answered with the error -1', undefined],
  ['tool_error', undefined, 'the tool reported an error', undefined],
  ['unknown', undefined, 'Latchkey was stopped before it ended', undefined],
  ['upstream_error', 'toString', 'the server did not return a usable answer', undefined],
] as const)('failure of a call: %s %s', (end, error, because, place) => {
  const failure = of(end, error);

  expect(failure?.because).toBe(because);
  expect(failure?.place).toBe(place);
});

test('failure of a call: an upstream that fails with shared headers leads to its authentication', () => {
  const failure = failureOf({
    end: 'upstream_error',
    error: 'upstream_failed',
    account: 'fixed_headers',
    person: undefined,
  });

  expect(failure?.place).toBe('upstream');
  expect(of('upstream_error', 'upstream_failed')?.place).toBe('settings');
});
