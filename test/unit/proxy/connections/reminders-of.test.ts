import { expect, test } from 'vitest';
import type { ConnectionView } from '#proxy/connections/accounts-service';
import { remindersOf } from '#proxy/connections/rotate-secret';

const now = 1_800_000_000;

function view(name: string, storedAt: number, old: boolean): ConnectionView {
  return {
    name,
    url: 'https://acme.example/mcp',
    source: { file: '', own: true },
    as: 'api_key',
    state: 'ready',
    renewable: false,
    proxies: [],
    startedBy: [],
    secret: {
      kind: 'api_key',
      storedAt,
      old,
      onTrial: false,
      dashboardUrl: 'https://acme.example',
    },
  };
}

test('rotation reminder: an API key is due after 90 days, the oldest first', () => {
  const views = [
    view('young', now - 89 * 86_400, false),
    view('old', now - 90 * 86_400, true),
    view('older', now - 400 * 86_400, true),
  ];

  expect(remindersOf(views, now).map(({ name, ageDays }) => [name, ageDays])).toEqual([
    ['older', 400],
    ['old', 90],
  ]);
});
