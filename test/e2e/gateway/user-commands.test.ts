import { afterAll, beforeAll, expect, test } from 'vitest';

import { serverProcess, type ServerProcess } from '#support/server-process';
import { visitor } from '#support/visitor';

const password = 'correct horse battery';
let server: ServerProcess;

beforeAll(async () => {
  server = await serverProcess();
  await server.commandProcess(['organization', 'create', 'acme']);
});
afterAll(() => server[Symbol.asyncDispose]());

const create = (email: string, role = 'member', typed = password) =>
  server.commandProcess(
    ['user', 'create', email, '--organization', 'acme', '--role', role, '--json'],
    `${typed}\n`,
  );

test('user create: the person can sign in while the server runs', async () => {
  const made: unknown = JSON.parse(await create('dana@example.com', 'owner'));
  const dana = visitor(server.base);

  const answer = await dana.signIn('dana@example.com', password);

  expect(made).toMatchObject({ email: 'dana@example.com', organization: 'acme', role: 'owner' });
  expect(answer.status).toBe(303);
  expect(await (await dana.get('/account')).text()).toContain('owner');
});

test('user create: a short password, an unknown role and an existing member are refused with a reason', async () => {
  await create('eve@example.com');

  await expect(create('short@example.com', 'member', 'short')).rejects.toThrow('12 characters');
  await expect(create('eve@example.com')).rejects.toThrow('already belongs to acme');
  await expect(create('role@example.com', 'king')).rejects.toThrow("'king' is unknown");
  await expect(create('not-an-address')).rejects.toThrow('not an e-mail address');
});

test('user list: people are printed as a table and as JSON', async () => {
  await create('list@example.com', 'viewer');

  expect(await server.commandProcess(['user', 'list'])).toMatch(
    /list@example\.com +user_\w{16} +acme:viewer/,
  );
  expect(JSON.parse(await server.commandProcess(['user', 'list', '--json']))).toContainEqual(
    expect.objectContaining({ email: 'list@example.com', roles: ['acme:viewer'] }),
  );
});

test('user reset: its link sets a new password once, and ends the old one and its sessions', async () => {
  await create('fay@example.com');
  const before = visitor(server.base);
  await before.signIn('fay@example.com', password);
  const words = ['user', 'reset-link', 'fay@example.com', '--base-url', server.base, '--json'];
  const { link }: { link: string } = JSON.parse(await server.commandProcess(words));
  const fay = visitor(server.base);
  const fields = { password: 'another horse battery', repeated: 'another horse battery' };

  const first = await fay.submit(new URL(link).pathname, fields);
  const second = await fay.get(new URL(link).pathname);

  expect([first.status, second.status]).toEqual([303, 410]);
  expect((await fay.get('/account')).status).toBe(200);
  expect((await before.get('/account')).status).toBe(303);
  const old = visitor(server.base);
  expect((await old.signIn('fay@example.com', password)).status).toBe(422);
});

test('user remove: the person is signed out immediately', async () => {
  await create('gil@example.com');
  const gil = visitor(server.base);
  await gil.signIn('gil@example.com', password);

  await server.commandProcess(['user', 'remove', 'gil@example.com', '--yes']);

  expect((await gil.get('/account')).status).toBe(303);
  await expect(server.commandProcess(['user', 'remove', 'gil@example.com'])).rejects.toThrow(
    'no person has the address gil@example.com',
  );
});

test('start: no set-up link is printed once a person can sign in', async () => {
  await create('hal@example.com');
  const [link = ''] = /\/set-up\/\S+/.exec(server.program.stdout) ?? [];
  const late = visitor(server.base);

  expect((await late.get(link)).status).toBe(410);
});
