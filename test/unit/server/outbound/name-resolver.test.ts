import { afterEach, expect, test } from 'vitest';

import { NameResolver, type NameResolverOptions } from '#server/outbound/name-resolver';

const address = { address: '192.0.2.1', family: 4 };
const resolvers: NameResolver[] = [];
afterEach(() => {
  for (const made of resolvers.splice(0)) made.close();
});

/** Names that begin with `stuck` never resolve in this process. */
function resolver(options: Partial<NameResolverOptions> = {}) {
  const asked: string[] = [];
  const lookup = async (host: string) => {
    asked.push(host);
    if (host.startsWith('stuck')) return new Promise<never>(() => undefined);
    if (host === 'unknown.test') throw Object.assign(new Error(host), { code: 'ENOTFOUND' });
    return [address];
  };
  const made = new NameResolver({ lookup, nodePath: process.execPath, env: {}, ...options });
  resolvers.push(made);
  return { names: made, asked };
}
/** No child can be started, so a name that goes to a child is lost. */
const childless = { nodePath: '/nonexistent/node' };
const timeout = { code: 'timeout' };

test('108: name resolution: all callers that wait for a name share one look-up', async () => {
  const { names, asked } = resolver();

  const found = await Promise.all(Array.from({ length: 30 }, () => names.resolve('a.test')));
  await names.resolve('a.test');

  expect(found).toEqual(found.map(() => [address]));
  expect(asked).toEqual(['a.test', 'a.test']);
  expect(names.children).toEqual([]);
});

test('name resolution: an unknown name is refused with the error of getaddrinfo, and looked up again', async () => {
  const { names, asked } = resolver();
  const unknown = { code: 'ENOTFOUND' };

  await expect(names.resolve('unknown.test')).rejects.toMatchObject(unknown);
  await expect(names.resolve('unknown.test')).rejects.toMatchObject(unknown);

  expect(asked).toHaveLength(2);
});

test('108: name resolution: a name that never resolves ends at the time limit, and is not looked up again immediately', async () => {
  const { names, asked } = resolver({ ...childless, limitMs: 20 });
  const waiting = Array.from({ length: 30 }, () => names.resolve('stuck.test'));

  for (const one of waiting) await expect(one).rejects.toMatchObject(timeout);
  await expect(names.resolve('stuck.test')).rejects.toMatchObject(timeout);

  expect(asked).toEqual(['stuck.test']);
});

test('108: name resolution: while a name is stuck, others resolve in a child, with /etc/hosts', async () => {
  const { names, asked } = resolver();
  // A label may have only 63 characters, so no name server is asked for this name.
  const stuck = names.resolve(`stuck${'x'.repeat(64)}`).catch(() => 'no');

  const local = await names.resolve('localhost');

  expect(local).toContainEqual({ address: '127.0.0.1', family: 4 });
  expect([asked.length, names.children.length]).toEqual([1, 1]);
  expect(await stuck).toBe('no');
});

test('name resolution: a child that cannot be started fails its names', async () => {
  const { names } = resolver(childless);

  await expect(names.resolve('stuck.test')).rejects.toMatchObject(timeout);
  expect(names.children).toEqual([]);
});

test('107: name resolution: at most 1000 names are resolved at a time', async () => {
  const { names } = resolver({ ...childless, limitMs: 20 });
  const many = Array.from({ length: 1000 }, (_, at) => names.resolve(`stuck${at}.test`));
  const ended = Promise.allSettled(many);

  await expect(names.resolve('other.test')).rejects.toMatchObject({ code: 'unreachable' });
  const outcomes = new Set((await ended).map(({ status }) => status));

  expect(outcomes).toEqual(new Set(['rejected']));
});

test('108: name resolution: while no child is free, a name that was resolved before has the same addresses', async () => {
  const { names, asked } = resolver({ ...childless, limitMs: 20 });
  await names.resolve('a.test');
  const many = Array.from({ length: 1000 }, (_, at) => names.resolve(`stuck${at}.test`));
  const ended = Promise.allSettled(many);

  expect(await names.resolve('a.test')).toEqual([address]);
  expect(asked.filter((host) => host === 'a.test')).toHaveLength(1);
  await ended;
});

test('108: name resolution: of the names in a child that is killed, those that were resolved before have the same addresses', async () => {
  const { names } = resolver(childless);
  await names.resolve('a.test');
  const stuck = names.resolve('stuck.test').catch(() => 'no');

  expect(await names.resolve('a.test')).toEqual([address]);
  expect(await stuck).toBe('no');
});
