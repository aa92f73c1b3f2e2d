import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { record } from '../../golden/record.ts';

const folder = join(import.meta.dirname, '../../golden/expected');
const expected = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map(({ parentPath, name }) => relative(folder, join(parentPath, name)).replaceAll(sep, '/'));

let recorded: ReadonlyMap<string, string>;
beforeAll(async () => {
  recorded = await record();
}, 900_000);

test.for(expected)(
  'golden output: %s is what the programs print and answer; `npm run golden` updates it',
  (name) => {
    expect(recorded.get(name)).toBe(readFileSync(join(folder, name), 'utf8'));
  },
);

test('golden output: all that is recorded is compared; `npm run golden` updates it', () => {
  expect([...recorded.keys()].toSorted()).toEqual(expected.toSorted());
});
