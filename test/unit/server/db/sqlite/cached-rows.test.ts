import { expect, test } from 'vitest';
import { cachedRows } from '#server/db/sqlite/cached-reads';
import { nodeSqlite } from '#server/db/sqlite/open-sqlite';
import { twoConnections } from '#support/two-connections';

/** A table with one row, how often it was read, and a second connection. */
async function kept(word = 'one') {
  const [connection, other] = await twoConnections();
  connection.exec('create table kept (id integer, word text)');
  connection.prepare('insert into kept values (1, ?)').run(word);
  const cached = cachedRows(connection);
  const question = 'select word from kept where id = ?';
  const statement = connection.prepare(question);
  let reads = 0;
  const ask = (id: number = 1) =>
    cached(question, [id], () => {
      reads += 1;
      return statement.all(id);
    });
  return { connection, other, ask, reads: () => reads };
}

const rows = (word: string) => [expect.objectContaining({ word })];

test('rows are not read again until the next write', async () => {
  const { ask, reads } = await kept();

  expect([ask(), ask(), ask()]).toEqual([rows('one'), rows('one'), rows('one')]);
  expect(reads()).toBe(1);
});

test('an empty result is not looked up again either, for each value separately', async () => {
  const { ask, reads } = await kept();

  expect([ask(2), ask(1), ask(2)]).toEqual([[], rows('one'), []]);
  expect(reads()).toBe(2);
});

test('the next read notices a write on this connection or another', async () => {
  const { connection, other, ask } = await kept();
  ask();

  other.exec("update kept set word = 'two'");
  expect(ask()).toEqual(rows('two'));

  connection.exec("update kept set word = 'three'");
  expect(ask()).toEqual(rows('three'));

  other.exec('delete from kept');
  expect(ask()).toEqual([]);
});

test('a transaction sees its own writes, and nothing of it is cached if it was rolled back', async () => {
  const { connection, ask } = await kept();
  ask();
  connection.exec('begin immediate');
  connection.exec("update kept set word = 'two'");
  const within = ask();

  connection.exec('rollback');

  expect([within, ask()]).toEqual([rows('two'), rows('one')]);
});

test('rows that several readers share cannot be changed', async () => {
  const { ask } = await kept();
  const found = ask();

  expect(() => found.pop()).toThrow(TypeError);
  expect(() => Object.assign(Object(found[0]), { word: 'two' })).toThrow(TypeError);
});

test('a result that takes much memory is not cached', async () => {
  const { ask, reads } = await kept('long '.repeat(200_000));
  ask();
  ask();

  expect(reads()).toBe(2);
});

test('the number of cached results is limited by their memory', async () => {
  const { connection, ask, reads } = await kept();
  const ids = Array.from({ length: 40 }, (_, place) => place + 2);
  const add = connection.prepare('insert into kept values (?, ?)');
  for (const id of ids) add.run(id, 'long '.repeat(80_000));
  ask(1);
  for (const id of ids) ask(id);
  const before = reads();

  ask(1);

  expect(reads()).toBe(before + 1);
});

test('a value that JSON cannot tell from another is read each time', async () => {
  const { connection } = await kept();
  const cached = cachedRows(connection);
  const read = (found: string) => () => [{ found }];

  expect(cached('select ?', [null], read('nothing'))).toEqual([{ found: 'nothing' }]);
  expect(cached('select ?', [Infinity], read('much'))).toEqual([{ found: 'much' }]);
  expect(cached('select ?', [1n], read('large'))).toEqual([{ found: 'large' }]);
});

test('a statement that writes and returns rows runs each time', async () => {
  const { connection, other } = await kept();
  const database = nodeSqlite(connection);
  const grow = database.prepare("update kept set word = word || '!' where id = ? returning word");
  const copy = database.prepare(
    'with known as (select * from kept) insert into kept select * from known returning id',
  );

  expect([grow.all([1]), grow.all([1])]).toEqual([rows('one!'), rows('one!!')]);
  expect([copy.all([]), copy.all([])].map(({ length }) => length)).toEqual([1, 2]);
  expect(other.prepare('select count(*) as rows from kept').get()).toEqual({ rows: 4 });
});

test('concurrent reads check once, at the first of them, for a write', async () => {
  const { connection, other } = await kept();
  const database = nodeSqlite(connection);
  const read = () => database.prepare('select word from kept where id = ?').all([1]);
  read();
  other.exec("update kept set word = 'two'");
  const seen: unknown[] = [];

  database.together(() => {
    seen.push(read());
    other.exec("update kept set word = 'three'");
    seen.push(read());
  });

  expect(seen).toEqual([rows('two'), rows('two')]);
  expect(read()).toEqual(rows('three'));
});

test('reads check again each time after concurrent ones failed', async () => {
  const { connection, other } = await kept();
  const database = nodeSqlite(connection);
  const read = () => database.prepare('select word from kept where id = ?').all([1]);
  const fail = () => {
    read();
    throw new Error('failed');
  };

  expect(() => database.together(fail)).toThrow('failed');
  other.exec("update kept set word = 'two'");
  expect(read()).toEqual(rows('two'));
});
