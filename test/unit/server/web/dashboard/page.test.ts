import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { updateSettings } from '#server/db/settings';
import { navigation } from '#server/web/dashboard/routes';
import { pageApp, type PageApp, withoutFooter } from '#support/page-app';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  for (const name of ['globex', 'strict']) {
    await insertOrganization(stores.db, { id: `org_${name}`, name, createdAt: clock.now() });
  }
  await updateSettings(stores.db, 'org_strict', { secondFactorRequired: true });
});
afterAll(() => app[Symbol.asyncDispose]());

const sideOf = (organization: string) => `<nav class="side" aria-label="${organization}">`;

test('error page: a member keeps the navigation where nothing is found, and is led to the same organization', async () => {
  const mel = await app.browser('user_mel');

  const { status, text } = await app.get('/dashboard/acme/servers/nobody', mel.cookie);

  expect(status).toBe(404);
  expect(text).toContain(sideOf('acme'));
  expect(text).toMatch(/href="\/dashboard\/acme\/servers" aria-current="true"/);
  expect(text).toContain('<a class="button" href="/dashboard/acme">Go to the dashboard</a>');
  expect(text).toContain('user_mel@example.com');
});

test('error page: an unknown path is not found, inside the organization of the path', async () => {
  const nora = await app.browser('user_nora');

  const inside = await app.get('/dashboard/acme/no-such-page', nora.cookie);
  const nobody = await app.get('/dashboard/acme/no-such-page', '');

  expect(inside.status).toBe(404);
  expect(inside.text).toContain(sideOf('acme'));
  expect(inside.text).not.toContain('aria-current="true"');
  expect(nobody.status).toBe(404);
  expect(nobody.text).not.toContain('acme');
});

test('error page: an expired form leads back to the organization, not to the sign-in page', async () => {
  const omar = await app.browser('user_omar', { organizationId: 'org_acme', role: 'owner' });
  const sent = { path: '/dashboard/acme/settings', cookie: omar.cookie, body: 'csrf_token=other' };

  const { status, text } = await app.post(sent);

  expect(status).toBe(403);
  expect(text).toContain(sideOf('acme'));
  expect(text).toContain('<a class="button" href="/dashboard/acme">Go to the dashboard</a>');
});

test('error page: a member without the permission keeps the navigation', async () => {
  const vic = await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });

  const { status, text } = await app.get('/dashboard/acme/servers/sales/new-key', vic.cookie);

  expect(status).toBe(403);
  expect(text).toContain('<h1>Your role does not allow this</h1>');
  expect(text).toContain(sideOf('acme'));
});

test('navigation: it has no entry that the role may not open, on error pages too', async () => {
  const vera = await app.browser('user_vera', { organizationId: 'org_acme', role: 'viewer' });
  const ada = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const paths = ['/dashboard/acme/servers', '/dashboard/acme/no-such-page'];
  const ask = (cookie: string) => Promise.all(paths.map((path) => app.get(path, cookie)));
  const audit = '<a href="/dashboard/acme/audit"';

  const closed = await ask(vera.cookie);
  const open = await ask(ada.cookie);

  expect(closed.map(({ text }) => [text.includes(sideOf('acme')), text.includes(audit)])).toEqual([
    [true, false],
    [true, false],
  ]);
  expect(open.map(({ text }) => text.includes(audit))).toEqual([true, true]);
});

test.each(['viewer', 'member', 'admin', 'owner'] as const)(
  'navigation: a person with the role %s is refused exactly the pages that it leaves out',
  async (role) => {
    const { cookie } = await app.browser(`user_nav_${role}`, { organizationId: 'org_acme', role });
    const { text } = await app.get('/dashboard/acme/servers', cookie);
    const shown = navigation.filter(({ path }) =>
      text.includes(`<li><a href="/dashboard/acme${path}"`),
    );
    const opened: string[] = [];
    for (const { text: entry, path } of navigation) {
      const { status } = await app.get(`/dashboard/acme${path}`, cookie);
      expect([200, 403]).toContain(status);
      if (status === 200) opened.push(entry);
    }

    expect(opened).toEqual(shown.map((entry) => entry.text));
    expect(opened.includes('Usage')).toBe(role === 'admin' || role === 'owner');
  },
);

test.each([
  ['', 'Overview'],
  ['/new-server', 'Servers'],
  ['/servers/sales/new-key', 'Servers'],
  ['/servers/sales/upstream', 'Servers'],
  ['/new-agent', 'Agents'],
  ['/people/invite', 'People'],
  ['/consents', 'People'],
  ['/groups/no-such-group', 'Groups'],
  ['/single-sign-on', 'Sign-in'],
  ['/sign-in/new-provider', 'Sign-in'],
  ['/settings/webhooks', 'Settings'],
])('navigation: the page at %j belongs to the entry %s', async (path, entry) => {
  const { cookie } = await app.browser('user_una', { organizationId: 'org_acme', role: 'owner' });

  const { text } = await app.get(`/dashboard/acme${path}`, cookie);
  const current = [...text.matchAll(/aria-current="true">([^<]+)</g)].map(([, name]) => name);

  expect(current).toEqual([entry]);
});

test('error page: a non-member learns nothing about any organization', async () => {
  const eve = await app.browser('user_eve', { organizationId: 'org_globex', role: 'owner' });
  const paths = ['', '/servers', '/no-such-page'];
  const ask = (organization: string) =>
    Promise.all(paths.map((path) => app.get(`/dashboard/${organization}${path}`, eve.cookie)));

  const known = await ask('acme');
  const unknown = await ask('nobody-has-this');

  expect(known.map(({ status }) => status)).toEqual([404, 404, 404]);
  expect(known.map(({ text }) => withoutFooter(text))).toEqual(
    unknown.map(({ text }) => withoutFooter(text)),
  );
  expect(known.filter(({ text }) => /class="side"|acme|globex/.test(text))).toEqual([]);
});

test('error page: without the required second factor nothing of the organization is shown', async () => {
  const of = { organizationId: 'org_strict', role: 'owner' } as const;
  const weak = await app.browser('user_weak', of);
  const strong = await app.browser('user_strong', of, 2);
  const missing = '/dashboard/strict/no-such-page';

  const refused = await app.get(missing, weak.cookie);
  const forged = await app.post({
    path: '/dashboard/strict/settings',
    cookie: weak.cookie,
    body: 'csrf_token=other',
  });
  const shown = await app.get(missing, strong.cookie);

  expect([refused.status, forged.status, shown.status]).toEqual([404, 403, 404]);
  expect(refused.text).not.toContain('class="side"');
  expect(forged.text).not.toContain('class="side"');
  expect(shown.text).toContain(sideOf('strict'));
});

/** All pages of `acme` that a person reaches by links from its start page, with the status of each. */
async function reachable(cookie: string): Promise<ReadonlyMap<string, number>> {
  const seen = new Map<string, number>();
  const waiting = ['/dashboard/acme'];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue;
    const { status, text } = await app.get(path, cookie);
    seen.set(path, status);
    for (const [, href = ''] of text.matchAll(/href="(\/dashboard\/acme[^"#]*)/g)) {
      waiting.push(href.replaceAll('&amp;', '&'));
    }
  }
  return seen;
}

test.each(['viewer', 'member', 'admin', 'owner'] as const)(
  'links: no page leads a person with the role %s to one that their role may not open',
  async (role) => {
    const { cookie } = await app.browser(`user_link_${role}`, { organizationId: 'org_acme', role });

    const pages = await reachable(cookie);

    expect(pages.size).toBeGreaterThan(4);
    expect([...pages].filter(([, status]) => status >= 400)).toEqual([]);
  },
);
