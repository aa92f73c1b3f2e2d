import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { libraryFile } from '#server/upstreams/demo/library-file';
import { temporaryFolder } from '#support/temporary-folder';

const one = (file: string, sql: string): unknown => {
  using database = new DatabaseSync(file, { readOnly: true });
  return Object.values(database.prepare(sql).get() ?? {})[0];
};

test('the sample library is the same wherever it is created', async () => {
  await using first = await temporaryFolder();
  await using second = await temporaryFolder();
  const [a, b] = [libraryFile(first.path), libraryFile(second.path)];

  expect(readFileSync(a).equals(readFileSync(b))).toBe(true);
  expect(one(a, 'select count(*) from loans')).toBe(8004);
  expect(one(a, 'select title from books where id = 1')).toBe('The Hollow Door');
});

test('the sample library is readable by its user only and leaves no draft behind', async () => {
  await using folder = await temporaryFolder();
  const file = libraryFile(folder.path);

  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder.path)).toEqual(['demo-library.db']);
});

test('a copy is never lent twice at a time, and every row refers to an existing one', async () => {
  await using folder = await temporaryFolder();
  const file = libraryFile(folder.path);

  expect(
    one(
      file,
      `select count(*) from loans a join loans b on a.copy_id = b.copy_id and a.id < b.id
       where a.returned_on is null or a.returned_on >= b.borrowed_on`,
    ),
  ).toBe(0);
  expect(one(file, 'select count(*) from pragma_foreign_key_check')).toBe(0);
});

test('an existing library is used again, and a broken one created again', async () => {
  await using folder = await temporaryFolder();
  const file = libraryFile(folder.path);
  const made = statSync(file).mtimeMs;

  expect(statSync(libraryFile(folder.path)).mtimeMs).toBe(made);
  writeFileSync(file, 'no database');
  libraryFile(folder.path);
  expect(one(file, 'select count(*) from branches')).toBe(5);
});
