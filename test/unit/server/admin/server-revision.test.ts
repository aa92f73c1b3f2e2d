import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { serverDisable, serverEnable, serverRead, serverUpdate } from '#server/admin/servers';
import type { Operation } from '#server/admin/operation';
import { adminApi, type AdminApi } from '#support/admin-api';

const answered = z.looseObject({
  revision: z.int().optional(),
  title: z.string().optional(),
  limits: z.record(z.string(), z.int().nullable()).optional(),
  error: z.string().optional(),
  error_description: z.string().optional(),
});

let api: AdminApi;
let token: string;
beforeAll(async () => {
  api = await adminApi();
  ({ token } = await api.person('admin'));
});
afterAll(() => api[Symbol.asyncDispose]());

/** Makes a server in `acme`; returns a function that performs operations on it. */
async function made() {
  const { server } = await api.things();
  return async (operation: Operation, fields: object = {}) => {
    const given = { organization: 'acme', server, ...fields };
    const { status, text } = await api.ask(operation, given, { authorization: `Bearer ${token}` });
    return { status, ...answered.parse(JSON.parse(text)) };
  };
}

test('the revision of a server changes with each change, and only then', async () => {
  const ask = await made();
  const first = await ask(serverRead);
  const again = await ask(serverRead);
  const later = [
    await ask(serverUpdate, { title: 'Sales' }),
    await ask(serverUpdate, { limits: { callsPerMinute: 9 } }),
    await ask(serverDisable),
    await ask(serverEnable),
  ].map(({ revision }) => revision);

  expect(again.revision).toBe(first.revision);
  expect(new Set([first.revision, ...later]).size).toBe(5);
  expect((await ask(serverRead)).revision).toBe(later.at(-1));
});

test('a change that names the current revision is done, and returns the next one', async () => {
  const ask = await made();
  const { revision } = await ask(serverRead);
  const changed = await ask(serverUpdate, { revision, limits: { callSeconds: 20 } });

  expect(changed).toMatchObject({ status: 200, limits: { call_seconds: 20 } });
  expect(changed.revision).not.toBe(revision);
});

test('a change that names an older revision is a conflict, and changes nothing', async () => {
  const ask = await made();
  const { revision } = await ask(serverRead);
  await ask(serverUpdate, { title: 'The first', limits: { callsPerMinute: 9 } });
  const before = await ask(serverRead);
  const late = await ask(serverUpdate, {
    revision,
    title: 'The second',
    limits: { callsPerMinute: 1 },
  });

  expect(late).toEqual({
    status: 409,
    error: 'conflict',
    error_description: 'the server has changed since it was read: read it again, then change it',
  });
  expect(await ask(serverRead)).toEqual(before);
});

test('a change without a revision is done whatever happened before it', async () => {
  const ask = await made();
  await ask(serverUpdate, { title: 'The first' });
  const changed = await ask(serverUpdate, { limits: { callsPerMinute: 1 } });

  expect(changed).toMatchObject({ status: 200, title: 'The first' });
});

test('a revision that is not a whole number is refused with the name of the field', async () => {
  const ask = await made();
  const answers = [
    await ask(serverUpdate, { revision: 'newest' }),
    await ask(serverUpdate, { revision: 1.5 }),
  ];

  expect(answers).toMatchObject([
    { status: 422, error: 'invalid', error_description: 'revision must be a number' },
    { status: 422, error: 'invalid', error_description: 'revision must be a whole number' },
  ]);
});
