import { expect, test } from 'vitest';
import { cachedReads, changeTokenReader } from '#server/db/sqlite/cached-reads';
import { twoConnections } from '#support/two-connections';

/** A table with one number, how often it was read, and a second connection. */
async function numbered() {
  const [connection, other] = await twoConnections();
  connection.exec('create table kept (number integer)');
  connection.exec('insert into kept values (1)');
  const cached = cachedReads(connection);
  let reads = 0;
  const statement = connection.prepare('select number from kept where number > 0');
  const ask = async () => {
    const row = await cached('number', () => {
      reads += 1;
      return statement.get();
    });
    return row?.['number'];
  };
  return { connection, other, ask, reads: () => reads };
}

test('a result is not read again until the next write', async () => {
  const { ask, reads } = await numbered();

  expect([await ask(), await ask(), await ask()]).toEqual([1, 1, 1]);
  expect(reads()).toBe(1);
});

test('a read after a write, on this connection or another, gets the new value', async () => {
  const { connection, other, ask } = await numbered();
  await ask();

  other.exec('update kept set number = 2');
  expect(await ask()).toBe(2);

  connection.exec('update kept set number = 3');
  expect(await ask()).toBe(3);

  other.exec('delete from kept');
  expect(await ask()).toBeUndefined();
});

test('a write in the same turn, after the read, is noticed too', async () => {
  const { other, ask } = await numbered();
  await ask();
  const [early, late] = [ask(), ask()];

  other.exec('update kept set number = 2');

  expect([await early, await late]).toEqual([2, 2]);
});

test('nothing of a transaction that was rolled back is cached', async () => {
  const { connection, ask } = await numbered();
  await ask();
  connection.exec('begin immediate');
  connection.exec('update kept set number = 2');
  await ask();

  connection.exec('rollback');

  expect(await ask()).toBe(1);
});

test('an absent row is looked up each time', async () => {
  const { connection, ask, reads } = await numbered();
  connection.exec('delete from kept');

  expect([await ask(), await ask()]).toEqual([undefined, undefined]);
  expect(reads()).toBe(2);
});

test('a closed connection is an error for every reader', async () => {
  const { connection, ask } = await numbered();
  await ask();
  const asked = Promise.allSettled([ask(), ask()]);

  connection.close();

  expect(await asked).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }]);
});

test('a second read in the same turn is cached, and one after a write of another connection is not', async () => {
  const [connection, other] = await twoConnections();
  connection.exec('create table kept (number integer)');
  connection.exec('insert into kept values (1)');
  const cached = cachedReads(connection);
  const changeToken = changeTokenReader(connection);
  const statement = connection.prepare('select number from kept');
  let reads = 0;
  const read = () => {
    reads += 1;
    return statement.get();
  };

  expect([
    cached('number', read, changeToken()),
    cached('number', read, changeToken()),
  ]).toMatchObject([{ number: 1 }, { number: 1 }]);
  expect(reads).toBe(1);

  other.exec('update kept set number = 2');

  expect(cached('number', read, changeToken())).toMatchObject({ number: 2 });
});
