import { describe, expect, test } from 'vitest';

import { administrationWithServer } from '#support/administration';

async function terminal() {
  const admin = await administrationWithServer();
  await admin.run(...'user create dana@example.com --organization acme --role owner'.split(' '));
  return admin;
}

describe('what was not found is followed by the command that lists it', () => {
  test.each([
    ['call show acme call_x', 'call list acme'],
    ['invitation revoke acme invitation_x', 'invitation list acme'],
    ['consent withdraw acme grant_x', 'consent list acme'],
    ['access-request grant acme request_x group_x', 'access-request list acme'],
    ['domain prove acme example.com', 'domain list acme'],
    ['outbound remove mcp.internal', 'outbound list'],
    ['webhook test acme whk_x', 'webhook list acme'],
    ['tool correct acme/web nosuch --title X', 'tool list acme/web'],
    ['tool list acme/web --as nobody@example.com', 'user list'],
    ['mail retry acme', 'mail set-server acme'],
    ['collection set-member acme/desk other', 'collection show acme/desk'],
    [
      'user offboard dana@example.com --organization acme --revoke key_x',
      'user offboard dana@example.com --organization acme --preview',
    ],
  ])('%s', async (line, hint) => {
    await using admin = await terminal();
    await admin.run('collection', 'create', 'acme/desk', '--member', 'web');
    await admin.run('group', 'create', 'acme', 'group_x');

    await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
      name: 'CommandError',
      hint: `latchkey-server ${hint}`,
    });
  });
});

test.each([
  ['organization update acme --call-retention-days 0', '--call-retention-days must be at least 1'],
  [
    'token create dana@example.com --name x --expires-in-days 999',
    '--expires-in-days must be at most',
  ],
  ['audit list acme --limit 500', '--limit must be at most 200'],
  ['invitation create acme --role chief', '--role must be'],
  ['invitation create acme --role member --send', '--email is missing'],
  ['webhook create acme --url http://example.com', '--url is not an https URL'],
])('a refused field is named as the option: %s', async (line, message) => {
  await using admin = await terminal();

  await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
    name: 'UsageError',
    message: expect.stringContaining(message),
  });
});
