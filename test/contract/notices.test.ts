import { afterEach, beforeEach, expect, test } from 'vitest';

import { insertAgent } from '#server/db/agents';
import { insertKey } from '#server/db/keys';
import { replaceMailServer } from '#server/db/mail';
import { replaceNoticeChoice } from '#server/db/notices';
import { changeRole, insertUser, removeMember } from '#server/db/people';
import { mailContent } from '#server/mail/compose-mail';
import { mailPurpose, mailSetup } from '#server/mail/mail-setup';
import { masterKey } from '#server/secrets/master-key';
import { Notices } from '#server/notices/notices';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeServer, newKey } from '#support/made-records';
import { stillClock, type StillClock } from '#support/still-clock';

const org = 'org_acme';
const daySeconds = 86_400;
const sealing = masterKey(new Uint8Array(32));
const guard = { allowedHosts: [], resolve: () => Promise.reject(new Error('no test resolves')) };
const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: madeAt };
const lee = { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt };

await onEachDatabase('notices', ({ open }) => {
  let database: TestDatabase;
  let clock: StillClock;
  let faults: unknown[];
  let nodes: Notices[];

  const node = () => {
    const setup = mailSetup({ sealing, guard, clock, base: 'https://latchkey.example' });
    const made = new Notices({
      db: database.db,
      mailSetup: setup,
      clock,
      failed: (error) => faults.push(error),
    });
    nodes.push(made);
    return made;
  };
  /** Lets the first node look for notices after `seconds`. */
  const lookAfter = async (seconds: number) => {
    clock.advance(seconds);
    await nodes[0]?.run();
  };
  const choose = (userId: string, kinds: readonly string[], frequency: 'now' | 'daily' = 'now') =>
    replaceNoticeChoice(database.db, org, userId, { kinds, frequency }, clock.now());
  const expiring = (id: string) =>
    insertKey(
      database.db,
      newKey({
        id,
        hash: id,
        name: id,
        createdAt: clock.now(),
        expiresAt: clock.now() + 9 * daySeconds,
      }),
    );
  const mails = async () => {
    const rows = await database.db.selectFrom('mail').selectAll().orderBy('created_at').execute();
    return rows.map((row) => {
      const opened = sealing.open(mailPurpose(row.id), row.sealed_content ?? '');
      const content = mailContent.parse(JSON.parse(opened));
      const items = content.kind === 'notice' ? content.items.map(({ text }) => text) : [];
      return `${row.recipient}: ${items.join('; ')}`;
    });
  };
  const webhook = (actions: readonly string[]) =>
    database.db
      .insertInto('webhook')
      .values({
        id: `webhook_${actions.length}`,
        organization_id: org,
        url: 'https://hooks.example/',
        actions: JSON.stringify(actions),
        sealed_secret: 'sealed',
        position: 0,
        created_at: madeAt,
      })
      .execute();
  const events = async () =>
    database.db
      .selectFrom('audit_event')
      .select(['action', 'target', 'actor', 'organization'])
      .where('action', 'like', 'attention.%')
      .orderBy('sequence')
      .execute();

  beforeEach(async () => {
    [database, clock, faults, nodes] = [await open(), stillClock(), [], []];
    await makeServer(database, 'sales');
    await makeServer(database, 'theirs', { organization: 'other' });
    await insertUser(database.db, dana, { organizationId: org, role: 'admin' });
    await insertUser(database.db, lee, { organizationId: org, role: 'admin' });
    const server = { host: 'smtp.example.com', port: 587, security: 'starttls' } as const;
    const others = { user: undefined, sealedPassword: undefined, from: 'latchkey@example.com' };
    await replaceMailServer(database.db, org, { ...server, ...others }, madeAt);
    node();
  });
  afterEach(async () => {
    await Promise.all(nodes.map((one) => one.close()));
    await database[Symbol.asyncDispose]();
    if (faults.length > 0) throw faults[0];
  });

  test('a thing is announced once, to those who chose its kind, however many nodes look', async () => {
    await choose('user_dana', ['key-expiring']);
    await choose('user_lee', ['server-failing']);
    await webhook(['attention.key-expiring']);
    await expiring('key_a');
    node();
    node();
    await Promise.all(nodes.map((one) => one.run()));
    await lookAfter(400);
    await lookAfter(400);

    expect(await mails()).toEqual([
      expect.stringMatching(/^dana@example.com: The API key key_a of sales expires \(\d+ \w+\)$/),
    ]);
    expect(await events()).toEqual([
      {
        action: 'attention.key-expiring',
        target: 'the API key key_a of sales expires',
        actor: 'system',
        organization: 'acme',
      },
    ]);
  });

  test('without a webhook that names them, notices are no events', async () => {
    await choose('user_dana', ['key-expiring']);
    await webhook([]);
    await expiring('key_a');
    await lookAfter(0);

    expect(await mails()).toHaveLength(1);
    expect(await events()).toEqual([]);
  });

  test('what comes up within five minutes is in one mail', async () => {
    await choose('user_dana', ['key-expiring']);
    await expiring('key_a');
    await lookAfter(0);
    await expiring('key_b');
    await lookAfter(60);
    await expiring('key_c');
    await lookAfter(60);
    const early = await mails();
    await lookAfter(180);

    expect(early).toHaveLength(1);
    expect((await mails())[1]).toMatch(/key_b.*; .*key_c/);
  });

  test('daily notices come once a day after seven, and none if nothing is new', async () => {
    await choose('user_dana', ['key-expiring'], 'daily');
    await expiring('key_a');
    await lookAfter(0);
    await expiring('key_b');
    await lookAfter(3600);
    const sameDay = await mails();
    await lookAfter(daySeconds);
    await lookAfter(daySeconds);

    expect(sameDay).toHaveLength(1);
    expect(await mails()).toHaveLength(2);
  });

  test('an agent must be away for five minutes, and is announced again only after a day', async () => {
    await choose('user_dana', ['agent-away']);
    await insertAgent(database.db, {
      id: 'agent_a',
      organizationId: org,
      name: 'hq',
      createdAt: 1,
    });
    const upstream = { kind: 'agent', agentId: 'agent_a', server: 'crm' } as const;
    await makeServer(database, 'crm', { upstream });
    const online = (until: number | null) =>
      database.db.updateTable('agent').set({ online_until: until }).execute();
    await lookAfter(0);
    const early = await mails();
    await lookAfter(300);
    await online(clock.now() + 7200);
    await lookAfter(600);
    await online(null);
    await lookAfter(600);
    await lookAfter(600);
    const again = await mails();
    await online(clock.now() + 2 * daySeconds);
    await lookAfter(daySeconds + 3600);
    await lookAfter(600);
    await online(null);
    await lookAfter(600);
    await lookAfter(600);

    expect([early.length, again.length]).toEqual([0, 1]);
    expect(await mails()).toHaveLength(2);
  });

  test('a person gets only what their role sees now, and nothing once they left', async () => {
    await choose('user_dana', ['key-expiring']);
    await choose('user_lee', ['key-expiring']);
    await changeRole(database.db, org, 'user_dana', { from: 'admin', to: 'member' });
    await expiring('key_a');
    await lookAfter(0);
    await removeMember(database.db, org, 'user_lee', 'admin');
    await expiring('key_b');
    await lookAfter(600);

    expect((await mails()).map((mail) => mail.split(':')[0])).toEqual(['lee@example.com']);
  });

  test('nothing of another organization is announced, and no one looks where no one listens', async () => {
    await choose('user_dana', ['key-expiring']);
    const owner = { type: 'server', serverId: 'srv_theirs' } as const;
    await insertKey(database.db, newKey({ owner, expiresAt: clock.now() + 9 * daySeconds }));
    await lookAfter(0);

    expect(await mails()).toEqual([]);
    expect(await events()).toEqual([]);
    const looks = await database.db.selectFrom('notice_look').select('organization_id').execute();
    expect(looks).toEqual([{ organization_id: org }]);
  });

  test('a mail lists at most fifty things', async () => {
    await choose('user_dana', ['key-expiring', 'key-old']);
    await Promise.all(
      Array.from({ length: 60 }, (_, place) =>
        insertKey(
          database.db,
          newKey({
            id: `key_${place}`,
            hash: `${place}`,
            createdAt: clock.now() - 91 * daySeconds,
            expiresAt: clock.now() + 9 * daySeconds,
          }),
        ),
      ),
    );
    await lookAfter(0);

    const [mail = ''] = await mails();
    expect(mail.split('; ')).toHaveLength(51);
    expect(mail).toMatch(/And 50 more$/);
  });
});
