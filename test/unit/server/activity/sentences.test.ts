import { expect, test } from 'vitest';

import { readFileSync } from 'node:fs';

import { failureOf } from '#server/activity/sentences';
import { endWords } from '#server/activity/call-words';
import { callEnds, upstreamAccounts } from '#server/model/calls';

const documentation = readFileSync(
  new URL('../../../../docs/activity.md', import.meta.url),
  'utf8',
);

/** The rows of the table below a heading of the documentation, each as the texts of its cells. */
function documented(heading: string): readonly string[][] {
  const [, section = ''] = documentation.split(`\n## ${heading}\n`);
  const [own = ''] = section.split('\n## ');
  const rows = own.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim().replaceAll('`', '')),
  );
}

test('outcomes: the documentation lists all of them, with the words of the page', () => {
  const rows = documented('Outcomes');

  expect(rows.map(([end, words]) => [end, words])).toEqual(
    callEnds.map((end) => [end, endWords[end]]),
  );
});

const reasons = documented('Why a server did not answer');

test('reasons of a server error: the documentation has a table of them', () => {
  expect(reasons.length).toBeGreaterThan(15);
});

test.each(reasons)(
  'reason of a server error: %s with the account %s',
  (error, account, because) => {
    const known = upstreamAccounts.find((one) => one === account);
    const failure = failureOf({
      end: 'upstream_error',
      error,
      account: known ?? 'oauth_account',
      person: { id: 'user_dana', name: 'dana@example.com' },
    });

    expect(known).toBe(account);
    expect(failure?.because).toBe(because);
  },
);

const of = (end: (typeof callEnds)[number], error?: string, account = 'none' as const) =>
  failureOf({ end, error, account, person: undefined });

test('failure of a call: one that went well or that its caller cancelled has none, any other has', () => {
  const without = callEnds.filter((end) => of(end) === undefined);

  expect(without).toEqual(['ok', 'cancelled']);
});

test.each([
  ['refused', 'insufficient_scope', 'the credential lacks the scope for it', 'credential'],
  [
    'refused',
    'suspended',
    'the server is disabled, the organization does not accept this application, or the owner of the credential left',
    undefined,
  ],
  ['refused', 'server_disabled', 'the server is disabled', 'settings'],
  [
    'refused',
    'self_registered_off',
    'the organization accepts only applications that its administrators created',
    'organization',
  ],
  [
    'refused',
    'latchkey_proxy_off',
    'the organization does not accept Latchkey’s own proxy',
    'organization',
  ],
  [
    'refused',
    'owner_left',
    'the person who created its key or OAuth client left, and no one has taken it over',
    'leavers',
  ],
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
    'the person has not connected an account at the upstream, or its sign-in has expired',
    'account',
  ],
  ['refused', 'key_missing', 'the person has not entered their key for the upstream', 'account'],
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
  [
    'unknown',
    undefined,
    'Latchkey was stopped before it ended, or could not record how it ended',
    undefined,
  ],
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

test.each([
  ['refused', 'not_connected', 'none', /^you have not connected your account /, /^Open the page/],
  ['refused', 'key_missing', 'none', /^you have not entered your key /, /^Open the page/],
  ['refused', 'closed_tool', 'none', /not open to you,/, /one of your groups/],
  ['refused', 'closed_prompt', 'none', /not open to you,/, /one of your groups/],
  ['refused', 'closed_resource', 'none', /not open to you,/, /one of your groups/],
  ['upstream_error', 'key_refused', 'person_key', /refused your key$/, /^Enter a new key/],
  [
    'upstream_error',
    'upstream_refused_credentials',
    'person_key',
    /refused your key$/,
    /^Enter a new key/,
  ],
  ['upstream_error', 'upstream_token', 'person_account', /refused your account$/, /^Connect it/],
  ['protocol_error', '-32042', 'none', /wants you to open a page/, /^Open the page/],
] as const)(
  'failure of a call: %s %s with the account %s is explained to the person who called as "you"',
  (end, error, account, because, remedy) => {
    const call = { end, error, account, person: { id: 'user_dana', name: 'dana@example.com' } };
    const own = failureOf(call, 'user_dana');
    const other = failureOf(call, 'user_lee');

    expect(own?.because).toMatch(because);
    expect(own?.remedy).toMatch(remedy);
    expect(own?.place).toBe(other?.place);
    expect(other?.because).not.toMatch(/\byour?\b/);
    expect(other).toEqual(failureOf(call));
  },
);

test('failure of a call: what concerns no person reads the same to everyone', () => {
  const person = { id: 'user_dana', name: 'dana@example.com' };
  const shared = { end: 'upstream_error', account: 'fixed_headers', person } as const;
  const call = { ...shared, error: 'upstream_refused_credentials' };

  expect(failureOf(call, 'user_dana')).toEqual(failureOf(call));
  expect(failureOf({ ...call, person: undefined })?.because).toContain('shared key');
});

test('failure of a call: no explanation speaks to the person who called of "the person"', () => {
  const person = { id: 'user_dana', name: '' };
  const codes = ['not_connected', 'key_missing', 'key_refused', 'upstream_token', 'upstream_scope'];
  const said = codes.flatMap((error) =>
    (['person_key', 'person_account', 'oauth_account'] as const).flatMap((account) => {
      const failure = failureOf({ end: 'refused', error, account, person }, 'user_dana');
      return [failure?.because, failure?.remedy];
    }),
  );

  expect(said.filter((text) => text === undefined || /the person/i.test(text))).toEqual([]);
});
