import { afterEach, beforeEach, expect, test } from 'vitest';
import { findServer } from '#server/db/servers';
import type { Actor } from '#server/admin/operation';
import { serverCreate, serverUpdate } from '#server/admin/servers';
import { administered, type Administered } from '#support/administered';

const inside = 'http://10.1.2.3/mcp';
const where = { organization: 'acme', server: 'crm' };

let acme: Administered;
let admin: Actor;
beforeEach(async () => {
  acme = await administered();
  admin = await acme.person('admin');
});
afterEach(() => acme[Symbol.asyncDispose]());

const create = (url: string, actor?: Actor) => {
  const input = { organization: 'acme', name: 'crm', upstream: { kind: 'http', url } };
  return acme.perform(serverCreate, input, actor);
};
const kept = async () =>
  (await findServer(acme.stores.db, 'acme', 'crm'))?.target.upstream ?? 'none';

test.each([
  inside,
  'http://[fd00::1]/mcp',
  'http://localhost:3000/mcp',
  'http://mcp.localhost/mcp',
  'http://0x7f.2/mcp',
  'http://169.254.169.254/latest',
])('everyone but the operator is refused: %s leads into a private network', async (url) => {
  const refused = create(url, admin);

  await expect(refused).rejects.toMatchObject({
    code: 'invalid',
    fields: [{ field: 'upstream.url', problem: expect.stringContaining('private network') }],
  });
});

test.each(['https://mcp.example/mcp', 'http://8.8.8.8/mcp', 'http://127.0.0.1:3000/mcp'])(
  'everyone but the operator may use %s, which is public or allowed',
  async (url) => {
    await create(url, admin);

    expect(await kept()).toMatchObject({ kind: 'http', url, publicOnly: true });
  },
);

test('a URL that the operator allowed stays allowed when another person saves other settings with it', async () => {
  await create(inside);
  const upstream = { kind: 'http', url: inside };
  await acme.perform(serverUpdate, { ...where, title: 'CRM', upstream }, admin);

  expect(await kept()).toEqual({ kind: 'http', url: inside });
});

test('a URL that another person saved stays limited to public addresses until the operator names it', async () => {
  await create('https://mcp.example/mcp', admin);
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp' };
  await acme.perform(serverUpdate, { ...where, upstream }, admin);
  const before = await kept();
  await acme.perform(serverUpdate, { ...where, upstream });

  expect(before).toMatchObject({ publicOnly: true });
  expect(await kept()).not.toHaveProperty('publicOnly');
});

test('another URL is not allowed, and may not lead into a private network', async () => {
  await create(inside);
  const elsewhere = { kind: 'http', url: 'https://mcp.example/mcp' };
  const next = { kind: 'http', url: 'http://10.1.2.4/mcp' };
  const refused = acme.perform(serverUpdate, { ...where, upstream: next }, admin);

  await expect(refused).rejects.toMatchObject({ code: 'invalid' });
  await acme.perform(serverUpdate, { ...where, upstream: elsewhere }, admin);
  expect(await kept()).toMatchObject({ publicOnly: true });
});
