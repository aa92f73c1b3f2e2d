import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { patient } from '#support/patient';
import { endSession } from '#server/db/sessions';
import { changeRole, removeMember } from '#server/db/people';
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
    // The passing of time writes nothing, so the stream checks the time only at the next change.
    await app.browser(`user_other_${what.replaceAll(' ', '_')}`);

    expect(stream.status).toBe(200);
    expect(await stream.text).toMatch(/event: over\ndata:\n\n$/);
    expect((await app.get('/dashboard/acme/live', browser.cookie)).status).not.toBe(200);
  },
);

test('nodes page: its stream announces a node that disappears, and not that nodes are still seen', async () => {
  const browser = await app.browser('user_owner', { organizationId: 'org_acme', role: 'owner' });
  const stream = await app.stream('/nodes/live', browser.cookie);
  const [first] = app.nodes;
  if (!first) throw new Error('no nodes');
  app.nodes[0] = { ...first, seenAt: first.seenAt + 2 };
  await app.browser('user_at_first');
  app.nodes[0] = { ...first, isAlive: false };
  await app.browser('user_then');
  await vi.waitFor(() => expect(stream.received()).toContain('event: written'), patient);
  await endSession(app.server.stores.db, browser.userId, browser.sessionId);

  expect(await stream.text).toMatch(/^retry: 2000\n\n(:\n\n)*event: written\n/);
});

test('nodes page: its stream ends when its reader no longer owns every organization', async () => {
  const membership = { organizationId: 'org_acme', role: 'owner' } as const;
  const browser = await app.browser('user_former_owner', membership);
  await app.browser('user_other_owner', membership);
  const stream = await app.stream('/nodes/live', browser.cookie);
  await changeRole(app.server.stores.db, 'org_acme', browser.userId, {
    from: 'owner',
    to: 'admin',
  });

  expect(stream.status).toBe(200);
  expect(await stream.text).toMatch(/event: over\ndata:\n\n$/);
  expect((await app.get('/nodes/live', browser.cookie)).status).toBe(404);
});

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
