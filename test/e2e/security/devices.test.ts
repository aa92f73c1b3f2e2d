import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { insertServer } from '#server/db/servers';
import { addServers, bundleClient, refusalOf, type BundleClient } from '#support/bundle-client';
import {
  grantingServer,
  hiddenFields,
  type Browser,
  type GrantingServer,
} from '#support/granting-server';
import { newestEvents } from '#support/newest-events';
import { patient } from '#support/patient';
import { legacyAnswer, recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
let server: GrantingServer;
let client: BundleClient;
let dana: Browser;
let lee: Browser;
beforeAll(async () => {
  server = await grantingServer();
  await addServers(server, ['wiki']);
  await insertServer(server.stores.db, {
    id: 'srv_slow',
    targetId: 'target_slow',
    organizationId: 'org_acme',
    name: 'slow',
    upstream: { kind: 'http', url: upstream.url },
    createdAt: 1,
  });
  client = await bundleClient(server);
  dana = await server.browser();
  lee = await server.browser();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** What a proxy says of its computer. The ids are 22 characters long. */
const laptop = (id: string, name = 'laptop') => ({
  device_id: id.padEnd(22, '0'),
  device_name: name,
  device_system: 'Linux',
});

/** Signs a person in on a device, and gets tokens for the list of servers. */
async function signedIn(browser: Browser, claims: Record<string, string>) {
  const page = await client.ask(browser, [client.list], undefined, claims);
  const callback = await page.allowed(['acme/wiki', 'acme/slow']);
  return client.redeem(callback, page.verifier, client.list);
}

const at = (path = '') => `${server.base}/api/my/devices${path}`;

async function devices(accessToken: string) {
  const answer = await fetch(at(), { headers: { authorization: `Bearer ${accessToken}` } });
  const list: { devices: { id: string; name: string; current: boolean }[] } = JSON.parse(
    await answer.text(),
  );
  return list.devices;
}

async function signOut(accessToken: string, id: string): Promise<number> {
  const headers = { authorization: `Bearer ${accessToken}` };
  const answer = await fetch(at(`/${id}`), { method: 'DELETE', headers });
  return answer.status;
}

test('205: device: signed out while its call runs, the call, the tokens and nothing else end', async () => {
  const desk = await signedIn(dana, laptop('desk', 'desk'));
  const lost = await signedIn(dana, laptop('lost', 'lost'));
  const { access_token: token, refresh_token: next = '' } = await client.refresh(
    lost.refresh_token ?? '',
    client.resource('acme/slow'),
  );
  upstream.answer = (request, response) => {
    if (!request.body.toString().includes('tools/call')) legacyAnswer(request, response);
  };
  const running = fetch(client.resource('acme/slow'), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'wait', arguments: {} },
    }),
  }).then(
    async (answer) => answer.text(),
    () => 'cut off',
  );
  const sent = () => upstream.requests.some(({ body }) => body.includes('tools/call'));
  await vi.waitFor(() => expect(sent()).toBe(true), patient);
  const { id = '' } = (await devices(desk.access_token)).find(({ name }) => name === 'lost') ?? {};

  expect(await signOut(desk.access_token, id)).toBe(200);
  await vi.waitFor(() => expect(upstream.lost()).toBe(1), patient);
  expect(await running).not.toContain('"result"');
  expect(await client.call('acme/slow', token)).toBe(401);
  expect(await client.servers(lost.access_token)).toBe(401);
  expect(await refusalOf(client.refresh(next, client.resource('acme/wiki')))).toBe('invalid_grant');
  expect((await devices(desk.access_token)).map(({ name }) => name)).toEqual(['desk']);
  const events = await newestEvents(server.stores.db, 20);
  expect(events.find(({ action }) => action === 'device.sign-out')).toMatchObject({
    actor: `user:${dana.userId}`,
    organization: 'acme',
    target: `user:${dana.userId} ${id}`,
  });
});

test('device: on a new one, the servers of the last one are ticked', async () => {
  const mover = await server.browser();
  await signedIn(mover, laptop('old'));
  const page = await client.ask(mover, [client.list], undefined, laptop('new'));
  const ticked = [...page.offered].filter(([, { isTicked }]) => isTicked).map(([path]) => path);

  expect(page.offered.size).toBeGreaterThan(2);
  expect(ticked.toSorted()).toEqual(['acme/slow', 'acme/wiki']);
});

test('206: device: its id opens and ends nothing of another person', async () => {
  const shared = laptop('shared');
  const hers = await signedIn(dana, shared);
  const theirs = await signedIn(lee, shared);
  const own = (await devices(hers.access_token)).find(({ current }) => current);
  const [other] = await devices(theirs.access_token);

  expect(own?.id).not.toBe(other?.id);
  expect(await signOut(theirs.access_token, own?.id ?? '')).toBe(404);
  expect(await signOut(theirs.access_token, 'device_unknown')).toBe(404);
  expect(await client.servers(hers.access_token)).toBeInstanceOf(Map);
  expect(await signOut(theirs.access_token, other?.id ?? '')).toBe(200);
  expect(await client.servers(hers.access_token)).toBeInstanceOf(Map);
});

test('206: device: what is malformed, too long or not from our proxy names no device', async () => {
  const stranger = await server.browser();
  const tokens = await signedIn(stranger, { ...laptop('long'), device_name: 'x'.repeat(101) });
  await signedIn(stranger, { ...laptop('short'), device_id: 'short' });
  await signedIn(stranger, { ...laptop('empty'), device_name: ' ' });
  await server.signIn(stranger, laptop('foreign'));

  expect(await devices(tokens.access_token)).toEqual([]);
});

test('207: device: fifty of a person are remembered, and those in use are not forgotten', async () => {
  const collector = await server.browser();
  const first = await signedIn(collector, laptop('first'));
  const namedAt = Math.floor(Date.now() / 1000) - 60;
  const rows = Array.from({ length: 60 }, (_, index) => ({
    id: `device_idle${index}`,
    person_id: collector.userId,
    claim_hash: `${index}`,
    name: 'idle',
    system: '',
    created_at: namedAt,
    named_at: namedAt,
  }));
  await server.stores.db.insertInto('device').values(rows).execute();
  await signedIn(collector, laptop('second', 'second'));

  const kept = await server.stores.db
    .selectFrom('device')
    .select('id')
    .where('person_id', '=', collector.userId)
    .execute();
  expect(kept).toHaveLength(50);
  const names = (await devices(first.access_token)).map(({ name }) => name);
  expect(names.toSorted()).toEqual(['laptop', 'second']);
});

test('device: the person signs it out on the page of their applications', async () => {
  const person = await server.browser();
  const tokens = await signedIn(person, laptop('paged', 'laptop of Kim'));
  const headers = { cookie: person.cookie };
  const home = `${server.base}/dashboard/acme/applications`;
  const page = await (await fetch(home, { headers })).text();
  const [, question = ''] = /href="([^"]*\/devices\/device_\w+\/sign-out)"/.exec(page) ?? [];
  const asked = await (await fetch(server.base + question, { headers })).text();
  const answer = await fetch(server.base + question, {
    method: 'POST',
    headers: { ...headers, origin: server.base },
    body: new URLSearchParams(hiddenFields(asked, question)),
    redirect: 'manual',
  });

  expect(page).toContain('On laptop of Kim (Linux)');
  expect(asked).toContain('loses access to 2 servers immediately');
  expect([answer.status, answer.headers.get('location')]).toEqual([
    303,
    '/dashboard/acme/applications?done=device',
  ]);
  expect(await client.servers(tokens.access_token)).toBe(401);
});
