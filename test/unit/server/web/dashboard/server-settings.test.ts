import { afterEach, beforeEach, expect, test } from 'vitest';

import { findServer, updateServer } from '#server/db/servers';
import { limitNames } from '#server/model/server-limits';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/servers/sales/settings';
const url = 'https://mcp.example/mcp';
const limits = {
  callsPerMinute: '120',
  concurrentCalls: '8',
  callSeconds: '30',
  requestBytes: '500 kB',
  answerBytes: '1.5',
};

let app: PageApp;
let owner: SignedInBrowser;
beforeEach(async () => {
  app = await pageApp();
  owner = await app.browser('user_olga', { organizationId: 'org_acme', role: 'owner' });
});
afterEach(() => app[Symbol.asyncDispose]());

const kept = async () => {
  const server = await findServer(app.server.stores.db, 'acme', 'sales');
  if (!server) throw new Error('not made');
  return server;
};
const shown = async () => (await app.get(path, owner.cookie)).text;
const valueOf = (text: string, name: string) =>
  new RegExp(`name="${name}"[^>]* value="([^"]*)"`).exec(text)?.[1];
const revisionOf = (text: string) => valueOf(text, 'revision') ?? 'none';
const save = (typed: Record<string, string>) => {
  const fields = { csrf_token: owner.csrfToken, kind: 'http', url, title: 'Sales', ...typed };
  return app.post({ path, cookie: owner.cookie, body: new URLSearchParams(fields).toString() });
};

test('server settings: limits are saved, shown again, and removed by emptying their fields', async () => {
  const saved = await save({ ...limits, revision: revisionOf(await shown()) });
  const full = await kept();
  const again = await shown();
  const lifted = await save({ ...limits, callSeconds: '', revision: revisionOf(again) });

  expect([saved.status, lifted.status]).toEqual([303, 303]);
  expect(full.limits).toEqual({
    callsPerMinute: 120,
    concurrentCalls: 8,
    callSeconds: 30,
    requestBytes: 512_000,
    answerBytes: 1_572_864,
  });
  expect(Object.fromEntries(limitNames.map((name) => [name, valueOf(again, name)]))).toEqual(
    limits,
  );
  expect((await kept()).limits).not.toHaveProperty('callSeconds');
});

test.each([
  ['callsPerMinute', '0', 'Calls per minute must be at least 1.'],
  ['callsPerMinute', '1000001', 'Calls per minute must be at most 1000000.'],
  ['concurrentCalls', '1.5', 'Concurrent calls must be a whole number.'],
  ['concurrentCalls', 'many', 'Concurrent calls must be a number.'],
  ['callSeconds', '-1', 'Timeout must be at least 1.'],
  ['requestBytes', '1023 bytes', 'Max request size must be a size between 1 kB and 1024 MB.'],
  ['requestBytes', '4 GB', 'Max request size must be a size between 1 kB and 1024 MB.'],
  ['answerBytes', '1048576', 'Max response size must be a size between 1 kB and 1024 MB.'],
] as const)(
  'server settings: the limit %s of %s is refused beside its field',
  async (name, value, words) => {
    const before = await kept();
    const typed = { ...limits, title: 'Typed & kept', [name]: value };
    const { status, text } = await save({ ...typed, revision: revisionOf(await shown()) });

    expect(status).toBe(422);
    expect(text).toContain(`<p class="error" id="${name}-error">${words}</p>`);
    expect(text).toContain(`<a href="#${name}">${words}</a>`);
    expect(text.match(/<p class="error"/g)).toHaveLength(1);
    expect(limitNames.map((limit) => valueOf(text, limit))).toEqual(
      limitNames.map((limit) => typed[limit]),
    );
    expect(valueOf(text, 'title')).toBe('Typed &amp; kept');
    expect(await kept()).toEqual(before);
  },
);

test('server settings: every wrong limit is named beside its own field', async () => {
  const wrong = Object.fromEntries(limitNames.map((name) => [name, '0']));
  const { text } = await save({ ...wrong, revision: revisionOf(await shown()) });

  const named = [...text.matchAll(/<p class="error" id="(\w+)-error">/g)].map(([, name]) => name);
  expect(named).toHaveLength(limitNames.length);
  expect(new Set(named)).toEqual(new Set(limitNames));
});

test('server settings: a stale form is refused and overwrites nothing', async () => {
  const revision = revisionOf(await shown());
  await save({ ...limits, title: 'The first', revision });
  const late = await save({ callsPerMinute: '7', title: 'The second', revision });
  const between = await kept();
  const meant = await save({ callsPerMinute: '7', revision: revisionOf(late.text) });

  expect(late.status).toBe(409);
  expect(late.text).toContain('Another person changed this server while you edited it');
  expect(valueOf(late.text, 'title')).toBe('The second');
  expect(valueOf(late.text, 'callsPerMinute')).toBe('7');
  expect(between).toMatchObject({ title: 'The first', limits: { callsPerMinute: 120 } });
  expect(meant.status).toBe(303);
  expect((await kept()).limits).toEqual({ callsPerMinute: 7 });
});

test('server settings: correcting a field does not overwrite what another window saved in the meantime', async () => {
  const revision = revisionOf(await shown());
  const wrong = { callSeconds: 'long', title: 'The second', revision };
  await save({ title: 'The first', revision });
  const refused = await save(wrong);
  const late = await save({ ...wrong, callSeconds: '9', revision: revisionOf(refused.text) });

  expect([refused.status, late.status]).toEqual([422, 409]);
  expect((await kept()).title).toBe('The first');
});

test('server settings: saving them does not change the hidden tools', async () => {
  await updateServer(app.server.stores.db, 'srv_sales', { hiddenTools: ['drop'] });
  const saved = await save({ title: 'Sales', revision: revisionOf(await shown()) });

  expect(saved.status).toBe(303);
  expect((await kept()).target.hiddenTools).toEqual(['drop']);
});

test('deleting a server: the page names the collections, deployment files and registry entry that lose it', async () => {
  const post = (to: string, typed: Record<string, string>) => {
    const body = new URLSearchParams({ csrf_token: owner.csrfToken, ...typed }).toString();
    return app.post({ path: `/dashboard/acme/${to}`, cookie: owner.cookie, body });
  };
  const questionOf = async (verb: string) => {
    const { text } = await app.get(`/dashboard/acme/servers/sales/${verb}`, owner.cookie);
    return [...text.matchAll(/<li>([^<]*)<\/li>/g)].map(([, words]) => words).join('\n');
  };
  const before = await questionOf('delete');
  await post('new-collection', { name: 'desk', 'members.sales': 'sales' });
  await post('deploy/servers/sales', { install: 'everyone' });
  await post('deploy/servers/sales/publish', { title: 'Sales', description: 'Orders' });
  const leaves = 'Its tools, prompts and resources disappear from the collection desk immediately.';
  const files =
    'Deployment files install it for everyone. Its entry stays on their computers until you distribute new files.';

  expect(before).not.toMatch(/collection|Deployment|registry/);
  expect(await questionOf('disable')).toContain(leaves);
  expect(await questionOf('delete')).toContain(
    [leaves, files, 'Its public entry in the MCP registry disappears.'].join('\n'),
  );
});
