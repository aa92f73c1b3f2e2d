import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { LiveStreams, queryCache } from '#server/web/dashboard/live';
import { pageApp } from '#support/page-app';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';

/** Changes that a test makes, and streams whose lines it can read. */
function live() {
  const states = new Map<string, number>();
  let written = 0;
  const failures: unknown[] = [];
  const read = { stateOf: () => Promise.resolve() };
  const streams = new LiveStreams({
    changes: { newestChangeToken: async () => String(written) },
    failed: (error) => failures.push(error),
    clock: stillClock(),
  });
  const write = (topic?: string) => {
    written += 1;
    if (topic !== undefined) states.set(topic, written);
  };
  const pass = (topic: string) => states.set(topic, (states.get(topic) ?? 0) + 1);
  const open = async (
    but: { sessionId?: string; userId?: string; server?: string; isTimed?: boolean } = {},
  ) => {
    const lines: string[] = [];
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const end = response.end.bind(response);
    response.write = (chunk: unknown) => Boolean(lines.push(String(chunk)));
    response.end = (chunk?: unknown) => {
      if (typeof chunk === 'string') lines.push(chunk);
      return end();
    };
    const listener = { isAllowed: true, isOpen: false, isTaken: false, lines, response };
    const { sessionId = 's1', userId = 'user_dana', server, isTimed = false } = but;
    const isAllowed = async () => listener.isAllowed;
    const name = `acme/${server ?? ''}`;
    const readState = async () => {
      await read.stateOf();
      return String(states.get(name) ?? 0);
    };
    const topic = { sessionId, userId, name, readState, isAllowed, isTimed };
    listener.isOpen = await streams.open(topic, () => {
      listener.isTaken = true;
      return response;
    });
    lines.length = 0;
    return listener;
  };
  return { streams, write, pass, open, failures, read };
}

test('live stream: it announces that its topic changed, and not what changed', async () => {
  const { streams, write, open } = live();
  const sales = await open({ server: 'sales' });
  const web = await open({ server: 'web' });

  write('acme/sales');
  await streams.look();

  expect(sales.lines).toEqual(['event: written\ndata:\n\n']);
  expect(web.lines).toEqual([':\n\n']);
  streams.close();
});

test('live stream: nothing is queried or sent until a write', async () => {
  const { streams, write, open } = live();
  const page = await open();
  write();
  await streams.look();
  page.lines.length = 0;

  await streams.look();

  expect(page.lines).toEqual([]);
  streams.close();
});

test('live stream: what also changes with time is announced without a write, and only to those who may see it', async () => {
  const { streams, write, pass, open } = live();
  const other = await open();
  const calls = await open({ server: 'sales', isTimed: true });
  write();
  await streams.look();
  for (const { lines } of [other, calls]) lines.length = 0;

  await streams.look();
  expect(calls.lines).toEqual([]);
  pass('acme/sales');
  pass('acme/');
  await streams.look();
  expect([calls.lines, other.lines]).toEqual([['event: written\ndata:\n\n'], []]);
  calls.isAllowed = false;
  pass('acme/sales');
  await streams.look();

  expect(calls.lines.at(-1)).toBe('event: over\ndata:\n\n');
  streams.close();
});

test('live stream: it ends at the next check after its session or membership ended', async () => {
  const { streams, write, open } = live();
  const page = await open();
  page.isAllowed = false;

  write();
  await streams.look();

  expect(page.lines).toEqual(['event: over\ndata:\n\n']);
  expect(streams.count).toBe(0);
});

test('live stream: the fifth stream of a session ends its first', async () => {
  const { streams, open } = live();
  const first = await open();
  for (let more = 0; more < 4; more += 1) await open();
  await open({ sessionId: 's2' });

  expect(first.lines).toEqual(['event: full\ndata:\n\n']);
  expect(streams.count).toBe(5);
  streams.close();
});

test('live stream: a person keeps the newest twenty over all sessions, and no one else loses any', async () => {
  const { streams, open } = live();
  const other = await open({ userId: 'user_eve', sessionId: 'other' });
  const pages = [];
  for (let place = 0; place < 23; place += 1) pages.push(await open({ sessionId: `s${place}` }));

  expect(streams.count).toBe(21);
  expect(pages.map(({ lines }) => lines.join(''))).toEqual(
    pages.map((_, place) => (place < 3 ? 'event: full\ndata:\n\n' : '')),
  );
  expect(other.lines).toEqual([]);
  streams.close();
});

test('live stream: a topic that cannot be read takes over no response and ends no other stream', async () => {
  const { streams, open, read } = live();
  const pages = [];
  for (let page = 0; page < 4; page += 1) pages.push(await open());
  read.stateOf = () => Promise.reject(new Error('locked'));

  await expect(open()).rejects.toThrow('locked');
  expect(pages.map(({ lines }) => lines)).toEqual([[], [], [], []]);
  expect(streams.count).toBe(4);
  streams.close();
});

test('live stream: one that is opening while the server stops is not opened', async () => {
  const { streams, open, read } = live();
  const reading = Promise.withResolvers<void>();
  read.stateOf = () => reading.promise;
  const opening = open();
  streams.close();
  reading.resolve();

  expect(await opening).toMatchObject({ isOpen: false, isTaken: false });
  expect(streams.count).toBe(0);
});

/** An admin who has just looked at a page twice, and the database as another process has it open. */
async function visited(path: string) {
  const folder = await temporaryFolder();
  const app = await pageApp({ dataDir: folder.path });
  const other = new DatabaseSync(app.server.stores.connection.location() ?? '');
  onTestFinished(async () => {
    other.close();
    await app[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const look = () => app.get(`/dashboard/acme${path}`, cookie);
  expect([(await look()).status, (await look()).status]).toEqual([200, 200]);
  return { app, other, look };
}

const revocations = [
  ['a session that ends', "delete from browser_session where person_id = 'user_ada'", 303],
  ['a person who is removed', "delete from person where id = 'user_ada'", 303],
  ['a lesser role', "update membership set role = 'member' where person_id = 'user_ada'", 403],
  ['a membership that ends', "delete from membership where person_id = 'user_ada'", 404],
  ['a second factor that is required', 'update organization set second_factor_required = 1', 403],
  ['an organization that is disabled', 'update organization set disabled_at = 1', 404],
] as const;

test.each(revocations)(
  'query cache: %s by another process takes effect on the next request',
  async (_what, written, status) => {
    const { other, look } = await visited('/audit');

    other.exec(written);

    expect((await look()).status).toBe(status);
  },
);

const recalledPages = ['', '/usage', '/people', '/new-server'].flatMap((path) =>
  // Without a lesser role, whose effect depends on the page: a member may open the overview, but sees less of it.
  revocations
    .filter(([what]) => what !== 'a lesser role')
    .map(
      ([what, written, status]) => [`/dashboard/acme${path}`, what, path, written, status] as const,
    ),
);

test.each(recalledPages)(
  'query cache: it takes effect at %s, which is cached: %s',
  async (_at, _what, path, written, status) => {
    const { other, look } = await visited(path);

    other.exec(written);

    expect((await look()).status).toBe(status);
  },
);

test('query cache: the overview shows what another process wrote on the next request', async () => {
  const { other, look } = await visited('');
  expect((await look()).text).not.toContain('renamed');

  other.exec("update endpoint set name = 'renamed' where organization_id = 'org_acme'");

  expect((await look()).text).toContain('renamed');
});

test('query cache: a removed member is on no list on the next request', async () => {
  const { app, other, look } = await visited('/people');
  await app.browser('user_bo', { organizationId: 'org_acme', role: 'viewer' });
  expect((await look()).text).toContain('user_bo');

  other.exec("delete from membership where person_id = 'user_bo'");

  expect((await look()).text).not.toContain('user_bo');
});

test('query cache: a lower role sees nothing that an admin was shown', async () => {
  const { other, look } = await visited('');
  expect((await look()).text).toContain('Needs attention');

  other.exec("update membership set role = 'member' where person_id = 'user_ada'");

  expect((await look()).text).not.toContain('Needs attention');
});

test('query cache: one organization is not shown what another was shown', async () => {
  const { app, look } = await visited('/usage');
  await insertOrganization(app.server.stores.db, { id: 'org_other', name: 'other', createdAt: 1 });
  const theirs = await app.browser('user_oz', { organizationId: 'org_other', role: 'admin' });

  expect((await look()).text).toContain('/dashboard/acme/usage?range=24h');
  const shown = await app.get('/dashboard/other/usage', theirs.cookie);
  expect(shown.text).toContain('/dashboard/other/usage?range=24h');
  expect(shown.text).not.toContain('acme');
});

/** Work that counts how often it was done, and a query cache of a database to which `write` writes. */
function worked() {
  let [writes, times] = [0, 0];
  const cached = queryCache({ newestChangeToken: async () => `${writes}` });
  const work = async () => ({ time: (times += 1) });
  return {
    cached,
    work,
    ask: (...key: readonly unknown[]) => cached(key, work),
    write: () => (writes += 1),
  };
}

test('query cache: a key is computed once until a write', async () => {
  const { ask } = worked();

  expect(await ask('acme', { range: '1h' })).toEqual({ time: 1 });
  expect(await ask('acme', { range: '1h' })).toEqual({ time: 1 });
});

test('query cache: every key is computed separately', async () => {
  const { ask } = worked();

  expect(await ask('acme', 'owner')).toEqual({ time: 1 });
  expect(await ask('acme', 'viewer')).toEqual({ time: 2 });
  expect(await ask('acme', undefined, 'owner')).toEqual({ time: 3 });
});

test('query cache: a write empties it', async () => {
  const { ask, write } = worked();
  await ask('acme');
  await ask('other');

  write();

  expect(await ask('acme')).toEqual({ time: 3 });
  expect(await ask('other')).toEqual({ time: 4 });
});

test('query cache: a result is not kept if something was written in the meantime', async () => {
  const { cached, ask, work, write } = worked();

  const first = await cached(['acme'], async () => {
    write();
    return work();
  });

  expect(first).toEqual({ time: 1 });
  expect(await ask('acme')).toEqual({ time: 2 });
});

test('query cache: a result is not kept if a newer one exists already', async () => {
  const { cached, ask, write } = worked();

  await cached(['acme'], async () => {
    write();
    await ask('acme');
    return { time: 0 };
  });

  expect(await ask('acme')).toEqual({ time: 1 });
});

test('query cache: a failure is not kept', async () => {
  const { cached, ask } = worked();
  const failing = cached(['acme'], async () => {
    throw new Error('no database');
  });
  await expect(failing).rejects.toThrow('no database');

  expect(await ask('acme')).toEqual({ time: 1 });
});

test('query cache: the number of entries is bounded', async () => {
  const { ask } = worked();
  for (let key = 0; key < 60; key += 1) await ask(key);

  expect(await ask(59)).toEqual({ time: 60 });
  expect(await ask(0)).toEqual({ time: 61 });
});
