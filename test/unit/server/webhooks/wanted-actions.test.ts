import { expect, test } from 'vitest';
import { wantedActionPattern } from '#server/webhooks/webhook-setup';

test.each(['key.', 'key.create', 'sign-in', 'refresh-token.reuse', 'organization.change-settings'])(
  '%s names actions',
  (text) => {
    expect(text).toMatch(wantedActionPattern);
  },
);

test.each(['', '.', 'Key.', 'key..', 'key *', '-key', 'key.%'])('%j names none', (text) => {
  expect(text).not.toMatch(wantedActionPattern);
});
