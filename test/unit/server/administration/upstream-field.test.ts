import { afterEach, beforeEach, expect, test } from 'vitest';

import type { Actor } from '#server/administration/actor';
import { serverCreate, serverUpdate } from '#server/administration/server-operations';
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
  (await acme.stores.organizations.serverByName('acme', 'crm'))?.upstream ?? 'none';

test('a URL that the operator vouched for stays so when somebody else saves other settings with it', async () => {
  await create(inside);
  const upstream = { kind: 'http', url: inside };
  await acme.perform(serverUpdate, { ...where, title: 'CRM', upstream }, admin);

  expect(await kept()).toEqual({ kind: 'http', url: inside });
});

test('a URL of anybody else is not vouched for by saving it again, until the operator names it', async () => {
  await create('https://mcp.example/mcp', admin);
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp' };
  await acme.perform(serverUpdate, { ...where, upstream }, admin);
  const before = await kept();
  await acme.perform(serverUpdate, { ...where, upstream });

  expect(before).toMatchObject({ publicOnly: true });
  expect(await kept()).not.toHaveProperty('publicOnly');
});

test('another URL than the operator’s is vouched for by nobody', async () => {
  await create(inside);
  const upstream = { kind: 'http', url: 'https://mcp.example/mcp' };
  await acme.perform(serverUpdate, { ...where, upstream }, admin);

  expect(await kept()).toMatchObject({ publicOnly: true });
});
