import { afterAll, beforeAll, expect, test } from 'vitest';

import { exportCalls } from '#server/activity/export-calls';
import { Pseudonyms } from '#server/activity/pseudonyms';
import { insertOrganization } from '#server/db/organizations';
import type { Role } from '#server/model/roles';
import type { EndedCall } from '#server/model/calls';
import { recordCalls } from '#support/made-calls';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

let app: PageApp;
const people: Record<string, SignedInBrowser> = {};
const dinah = 'user_dinah';
const path = `/dashboard/acme/people/${dinah}/pseudonymize`;

const sales = (organization: string): Partial<EndedCall> => ({
  endpoint: { id: `srv_${organization}`, organization, name: 'sales' },
  target: { id: `target_${organization}`, name: 'sales' },
});

beforeAll(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  const members: readonly (readonly [string, string, Role])[] = [
    ['user_olga', 'org_acme', 'owner'],
    ['user_ada', 'org_acme', 'admin'],
    ['user_mia', 'org_acme', 'member'],
    ['user_vic', 'org_acme', 'viewer'],
    [dinah, 'org_acme', 'member'],
    ['user_rita', 'org_other', 'owner'],
  ];
  for (const [id, organizationId, role] of members)
    people[id] = await app.browser(id, { organizationId, role });
  await db
    .insertInto('membership')
    .values({ organization_id: 'org_other', person_id: dinah, role: 'member' })
    .execute();
  const nowMs = (app.server.clock.now() - 3600) * 1000;
  await recordCalls(db, nowMs, [
    { ...sales('acme'), userId: dinah, subject: 'first' },
    {
      ...sales('acme'),
      userId: dinah,
      credential: { type: 'person', id: dinah },
      subject: 'second',
    },
    { ...sales('acme'), userId: 'user_ada', subject: 'third' },
    { ...sales('other'), userId: dinah, subject: 'elsewhere' },
  ]);
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (who: string, typed = `${dinah}@example.com`, at = path) => {
  const { cookie = '', csrfToken = '' } = people[who] ?? {};
  const body = new URLSearchParams({ csrf_token: csrfToken, typed }).toString();
  return app.post({ path: at, cookie, body });
};

const rowsOf = async (organization: string) =>
  JSON.stringify(
    await app.server.stores.db
      .selectFrom('call_record')
      .selectAll()
      .where('organization_id', '=', `org_${organization}`)
      .orderBy('id')
      .execute(),
  );

const requests = () => app.server.stores.db.selectFrom('call_pseudonym').selectAll().execute();

test.each([
  ['user_ada', 403],
  ['user_mia', 403],
  ['user_vic', 403],
  [dinah, 403],
  ['user_rita', 404],
])(
  '129: pseudonym: %s, who is no owner there, gets %i, and nothing changes',
  async (who, status) => {
    const question = await app.get(path, people[who]?.cookie ?? '');
    const answer = await send(who);

    expect([question.status, answer.status]).toEqual([status, status]);
    expect(await requests()).toEqual([]);
  },
);

test('129: pseudonym: of nobody in another organization, and not without the address', async () => {
  const elsewhere = `/dashboard/acme/people/user_rita/pseudonymize`;
  const foreign = await send('user_olga', 'user_rita@example.com', elsewhere);
  const untyped = await send('user_olga', 'user_ada@example.com');

  expect([foreign.status, untyped.status]).toEqual([404, 422]);
  expect(await requests()).toEqual([]);
});

test('129: pseudonym: of people who have left, by an owner and on the page of one of their calls', async () => {
  const { db } = app.server.stores;
  const nowMs = (app.server.clock.now() - 7200) * 1000;
  await recordCalls(db, nowMs, [
    { ...sales('acme'), userId: 'user_left', subject: 'of_left' },
    { ...sales('other'), userId: 'user_left', subject: 'of_left_elsewhere' },
  ]);
  const callOf = async (subject: string) => {
    const [call] = await db
      .selectFrom('call_record')
      .select('id')
      .where('subject', '=', subject)
      .execute();
    return `/dashboard/acme/activity/${call?.id}`;
  };
  const [own, foreign, ofMember] = await Promise.all(
    ['of_left', 'of_left_elsewhere', 'third'].map(callOf),
  );
  const asked = async (who: string, call = own) => {
    const page = await app.get(`${call}/pseudonymize`, people[who]?.cookie ?? '');
    const answer = await send(who, 'user_left', `${call}/pseudonymize`);
    return [page.status, answer.status];
  };
  const shown = async (who: string) => (await app.get(own ?? '', people[who]?.cookie ?? '')).text;

  expect(await asked('user_ada')).toEqual([403, 403]);
  expect(await asked('user_rita')).toEqual([404, 404]);
  expect(await asked('user_olga', foreign)).toEqual([404, 404]);
  expect(await asked('user_olga', ofMember)).toEqual([404, 404]);
  expect(await shown('user_ada')).not.toContain('/pseudonymize');
  expect(await requests()).toEqual([]);

  expect(await shown('user_olga')).toContain(`${own}/pseudonymize`);
  expect(await asked('user_olga')).toEqual([200, 303]);
  expect(await requests()).toMatchObject([{ organization_id: 'org_acme', person_id: 'user_left' }]);
  await db.deleteFrom('call_pseudonym').execute();
});

test('130: pseudonym: afterwards the person is in no row, and is found by nothing that is known of them', async () => {
  const { db } = app.server.stores;
  const others = await rowsOf('other');
  const admin = people['user_ada']?.cookie ?? '';
  const activity = '/dashboard/acme/activity';
  const before = await app.get(`${activity}?person=${dinah}`, admin);
  const [newest] = await db
    .selectFrom('call_record')
    .select('id')
    .where('subject', '=', 'third')
    .execute();
  const answer = await send('user_olga');
  const [event] = await newestEvents(db, 1);
  const working = new Pseudonyms({
    db,
    nowMs: () => (app.server.clock.now() + 1) * 1000,
    failed: (error) => expect.fail(String(error)),
  });
  await working.run();
  await working.close();

  expect(before.text).toContain('second');
  expect(answer.status).toBe(303);
  expect(event).toMatchObject({ action: 'person.pseudonymize', actor: 'user:user_olga' });
  expect(event?.target).toMatch(/^pseudonym:[\da-f]{12}$/);
  expect(JSON.stringify(event)).not.toContain(dinah);
  expect(await rowsOf('acme')).not.toContain(dinah);
  expect(await rowsOf('other')).toBe(others);
  for (const query of [
    `person=${dinah}`,
    `person=${dinah}@example.com`,
    `credential=${dinah}`,
    `older=${newest?.id}`,
    'tool=first',
  ]) {
    const { text } = await app.get(`${activity}?${query}`, admin);
    // The filter shows what the reader typed.
    const shown = text.replaceAll(
      /<form[\s\S]*?<\/form>|<ul class="chips"[\s\S]*?<\/ul>|(href|hx-get|data-live)="[^"]*"/g,
      '',
    );
    expect([query, shown.includes(dinah)]).toEqual([query, false]);
  }
  const own = await app.get(activity, people[dinah]?.cookie ?? '');
  expect(own.text).toContain('No calls in the last 7 days');
  const query = {
    organizationId: 'org_acme',
    filter: {},
    watermarkMs: Date.now() * 2,
    isOwn: false,
  };
  for (const format of ['csv', 'jsonl'] as const) {
    const pieces: string[] = [];
    for await (const piece of exportCalls(query, format, db)) pieces.push(piece);
    expect(pieces.join('')).not.toContain(dinah);
    expect(pieces.join('')).toMatch(/second/);
  }
});

test('129: pseudonym: an owner needs a recent sign-in', async () => {
  const before = await requests();
  await app.server.clock.advance(601);
  const answer = await send('user_olga');

  expect(answer.status).toBe(403);
  expect(answer.text).toContain('Sign in again');
  expect(await requests()).toEqual(before);
});
