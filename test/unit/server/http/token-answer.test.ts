import { sql } from 'kysely';
import { afterAll, describe, expect, test } from 'vitest';

import { insertClientSecret, revokeClientSecret } from '#server/db/client-secrets';
import { insertClient, revokeClient } from '#server/db/clients';
import { hashSecret, mintSecret } from '#server/secrets/secrets';
import { openStores } from '#server/app/stores';
import { fakeClock } from '#support/fake-clock';
import { grantingServer } from '#support/granting-server';
import { newClient } from '#support/made-records';
import { rawHttp } from '#support/raw-http';

const clock = fakeClock();
const server = await grantingServer({ clock });
/** Another connection to the same database, as an administrative command has one. */
const others = await openStores(server.dataDir);
afterAll(async () => {
  await others.close();
  await server[Symbol.asyncDispose]();
});
const { client } = server;
const { host, port } = new URL(server.base);
const grant = 'grant_type=client_credentials';
const good = `${grant}&client_id=${client.id}&client_secret=${client.secret}`;
const formType = 'Content-Type: application/x-www-form-urlencoded';
const basic = (id: string, secret: string) =>
  `Authorization: Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;

interface Sent {
  readonly body?: string;
  readonly headers?: readonly string[];
  readonly protocol?: string;
}

/** Sends the same request twice: to the front, and, with an `Origin` header that the endpoint ignores, to the framework. */
async function bothWays({ body = good, headers = [formType], protocol = 'HTTP/1.1' }: Sent = {}) {
  const send = async (more: readonly string[]) => {
    const own = [`Host: ${host}`, 'Connection: close', `Content-Length: ${body.length}`];
    const head = [`POST /api/oauth/token ${protocol}`, ...own, ...headers, ...more];
    const { text } = await rawHttp(Number(port), [...head, '', body].join('\r\n'));
    return answerOf(text);
  };
  return { front: await send([]), framework: await send([`Origin: ${server.base}`]) };
}

function answerOf(text: string) {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [status = '', ...lines] = head.split('\r\n');
  const headers = lines
    .map((line): [string, string] => [line.split(':')[0] ?? '', line])
    .map(([name, line]) => name.toLowerCase() + line.slice(name.length))
    .map((line) => line.replace(/^(date|x-request-id): .+/, '$1: …'))
    .toSorted();
  // Fastify writes the names of headers in lower case, the front does not.
  const isByFront = head.includes('X-Request-Id');
  return { isByFront, status, headers, body: body.replace(/eyJ[\w.-]+/, 'a token') };
}

describe('token endpoint: the front answers as the framework does', () => {
  test.each<[string, Sent, string]>([
    ['client credentials in the body', {}, '200'],
    ['a charset', { headers: [`${formType};charset=UTF-8`] }, '200'],
    ['HTTP/1.0', { protocol: 'HTTP/1.0' }, '200'],
    ['Basic', { body: grant, headers: [formType, basic(client.id, client.secret)] }, '200'],
    ['a narrower scope', { body: `${good}&scope=mcp%3Atools%3Aread` }, '200'],
    ['an empty body', { body: '' }, '400'],
    ['a wrong secret', { body: good.replace(client.secret, mintSecret('secret_')) }, '401'],
    ['a wrong secret by Basic', { body: grant, headers: [formType, basic(client.id, 'x')] }, '401'],
    ['an unknown client', { body: good.replace(client.id, 'client_unknown') }, '401'],
    ['an unknown scheme', { body: grant, headers: [formType, 'Authorization: Bearer x'] }, '401'],
    ['no secret', { body: `${grant}&client_id=${client.id}` }, '401'],
    ['an assertion that is none', { body: `${grant}&client_assertion=x` }, '400'],
    ['both kinds of credentials', { headers: [formType, basic(client.id, client.secret)] }, '400'],
    ['a parameter twice', { body: `${good}&scope=a&scope=a` }, '400'],
    ['too many parameters', { body: `${good}${'&a'.repeat(64)}` }, '400'],
    ['what is not UTF-8', { body: `${good}&x=\xff` }, '400'],
    ['NUL', { body: `${good}&x=%00` }, '400'],
    ['an unknown scope', { body: `${good}&scope=root` }, '400'],
    ['another resource', { body: `${good}&resource=https%3A%2F%2Fevil.example` }, '400'],
    ['an unknown grant', { body: good.replace('client_credentials', 'password') }, '400'],
    [
      'an unknown code',
      { body: good.replace(grant, 'grant_type=authorization_code&code=x') },
      '400',
    ],
    ['an unknown refresh token', { body: 'grant_type=refresh_token&refresh_token=x' }, '400'],
    ['two Content-Types', { headers: [formType, formType] }, '400'],
    [
      'two Authorizations',
      {
        body: grant,
        headers: [formType, basic(client.id, client.secret), 'authorization: Basic x'],
      },
      '400',
    ],
  ])('%s', async (_, sent, status) => {
    const { front, framework } = await bothWays(sent);

    expect([front.isByFront, framework.isByFront]).toEqual([true, false]);
    expect(front.status).toContain(` ${status} `);
    expect({ ...front, isByFront: false }).toEqual(framework);
  });

  test('a client that failed too often', async () => {
    const wrong = { body: good.replace(client.secret, mintSecret('secret_')) };
    for (let n = 0; n < 10; n += 1) await bothWays(wrong);
    const { front, framework } = await bothWays(wrong);
    await clock.advance(300);

    expect(front.isByFront).toBe(true);
    expect(front.headers).toContain('retry-after: 300');
    expect({ ...front, isByFront: false }).toEqual(framework);
  });

  test('a database that fails', async () => {
    // Another process renames the table, because the change token leaves out what a connection does to its own tables.
    await sql`alter table oauth_client rename to unread`.execute(others.db);
    const { front, framework } = await bothWays();
    await sql`alter table unread rename to oauth_client`.execute(others.db);

    expect([front.isByFront, front.status]).toEqual([true, expect.stringMatching(/ 50[03] /)]);
    expect({ ...front, isByFront: false }).toEqual(framework);
  });
});

test('token endpoint: what another process revokes gets no token from the next request', async () => {
  const createdAt = clock.now();
  const secrets = [mintSecret('secret_'), mintSecret('secret_')] as const;
  const [first, second] = secrets.map(hashSecret);
  await insertClient(
    others.db,
    newClient({ id: 'client_new', secretHash: first, createdAt, serverId: 'srv_sales' }),
  );
  const added = { clientId: 'client_new', hash: second ?? '', hint: '', createdAt };
  const secretId = await insertClientSecret(others.db, added, {
    most: 2,
    othersExpireAt: undefined,
  });
  const statuses = async () => {
    const got: (string | undefined)[] = [];
    for (const secret of secrets) {
      const body = `${grant}&client_id=client_new&client_secret=${secret}`;
      const { front } = await bothWays({ body });
      got.push(front.status.split(' ')[1]);
    }
    return got;
  };
  // Twice, so that the second time nothing has been written since the first and the records are cached.
  await statuses();
  expect(await statuses()).toEqual(['200', '200']);

  await revokeClientSecret(others.db, 'client_new', secretId ?? '', clock.now());
  expect(await statuses()).toEqual(['200', '401']);

  await revokeClient(others.db, 'client_new', clock.now());
  expect(await statuses()).toEqual(['401', '401']);
});

test('token endpoint: a secret expires on time, though its record is cached', async () => {
  const createdAt = clock.now();
  const old = mintSecret('secret_');
  await insertClient(
    others.db,
    newClient({
      id: 'client_rotated',
      secretHash: hashSecret(old),
      createdAt,
      serverId: 'srv_sales',
    }),
  );
  const added = { clientId: 'client_rotated', hash: 'new', hint: '', createdAt };
  await insertClientSecret(others.db, added, { most: 2, othersExpireAt: createdAt + 10 });
  const status = async () => {
    const body = `${grant}&client_id=client_rotated&client_secret=${old}`;
    return (await bothWays({ body })).front.status;
  };

  expect(await status()).toContain(' 200 ');
  expect(await status()).toContain(' 200 ');
  await clock.advance(10);
  expect(await status()).toContain(' 401 ');
});
