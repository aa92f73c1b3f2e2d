import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { endSession } from '#server/db/sessions';
import { removeMember } from '#server/db/people';
import { updateSettings } from '#server/db/settings';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const live = ({ cookie }: SignedInBrowser) => app.stream('/dashboard/acme/live', cookie);

/** What ends a stream, done to the browser that reads it. */
const ends: Record<string, (browser: SignedInBrowser) => Promise<unknown>> = {
  'is signed out': ({ cookie, csrfToken }) =>
    app.post({ path: '/sign-out', cookie, body: `csrf_token=${csrfToken}`, headers: form }),
  'is ended from another browser': ({ userId, sessionId }) =>
    endSession(app.server.stores.db, userId, sessionId),
  'was idle too long': () => app.server.clock.advance(31 * 24 * 3600),
  'leaves the organization': ({ userId }) =>
    removeMember(app.server.stores.db, 'org_acme', userId, 'member'),
};

test.each(Object.entries(ends))(
  '80: live page: its stream ends when its browser %s',
  async (what, end) => {
    const browser = await app.browser(`user_${what.replaceAll(' ', '_')}`);
    const stream = await live(browser);
    await end(browser);
    // Time alone writes nothing, and is looked at with the next change.
    await app.browser(`user_other_${what.replaceAll(' ', '_')}`);

    expect(stream.status).toBe(200);
    expect(await stream.text).toMatch(/event: over\ndata:\n\n$/);
    expect((await app.get('/dashboard/acme/live', browser.cookie)).status).not.toBe(200);
  },
);

test('live page: refused while the database cannot be read, and its connection is closed', async () => {
  const browser = await app.browser('user_unlucky');
  const { connection } = app.server.stores;
  connection.exec('alter table oauth_client rename to oauth_client_elsewhere');
  const failed = await live(browser);
  connection.exec('alter table oauth_client_elsewhere rename to oauth_client');

  expect(failed.status).toBe(503);
  expect(await failed.text).toContain('Try again in a few minutes');
  expect((await live(browser)).status).toBe(200);
});

test('83: live page: when two factors become required it ends after a one-factor sign-in, and stays after two', async () => {
  const membership = { organizationId: 'org_acme', role: 'member' } as const;
  const one = await live(await app.browser('user_one_factor', membership, 1));
  const browser = await app.browser('user_two_factors', membership, 2);
  const two = await live(browser);
  const { db } = app.server.stores;
  await updateSettings(db, 'org_acme', { secondFactorRequired: true });
  const ended = await one.text;
  await updateSettings(db, 'org_acme', { secondFactorRequired: false });
  const stays = Symbol('stays');
  const still = await Promise.race([two.text, Promise.resolve(stays)]);
  await endSession(db, browser.userId, browser.sessionId);

  expect(ended).toMatch(/event: over\ndata:\n\n$/);
  expect(still).toBe(stays);
  expect(await two.text).toContain('event: over');
});
