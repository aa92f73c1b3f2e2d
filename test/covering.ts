/**
 * `npm run covering -- FILE…`: the tests that cover a source file, nearest first: those that import it, then those that import what
 * imports it. Tests of `e2e` start whole programs, so the list has only those that import the file, too.
 */
import { relative, resolve } from 'node:path';
import { importGraph } from '#support/import-graph';

const root = resolve(import.meta.dirname, '..');
const most = 40;

const words = process.argv.slice(2);
if (words.length === 0) {
  console.error('usage: npm run covering -- FILE…, such as server/oauth/revocation.ts');
  process.exit(2);
}
const importers = new Map<string, string[]>();
const graph = importGraph();
for (const [file, imported] of graph) {
  for (const other of imported) importers.set(other, [...(importers.get(other) ?? []), file]);
}

for (const word of words) {
  // npm starts this in the root, whichever folder it was called in.
  const file = relative(root, resolve(process.env['INIT_CWD'] ?? '.', word)).replaceAll('\\', '/');
  if (!graph.has(file)) {
    console.error(`${word}: not a TypeScript file of this repository`);
    process.exitCode = 1;
    continue;
  }
  const tests = testsOf(file);
  console.log(`${file}: ${tests.length} test files`);
  for (const { test, distance } of tests.slice(0, most)) console.log(`  ${distance}  ${test}`);
  if (tests.length > most) console.log(`  and ${tests.length - most} that are further away`);
}

/** Test files by how many imports lie between them and the file. */
function testsOf(file: string): { readonly test: string; readonly distance: number }[] {
  const distances = new Map([[file, 0]]);
  for (const [reached, distance] of distances) {
    for (const importer of importers.get(reached) ?? []) {
      if (!distances.has(importer)) distances.set(importer, distance + 1);
    }
  }
  return [...distances]
    .filter(([reached]) => reached.endsWith('.test.ts'))
    .map(([test, distance]) => ({ test, distance }))
    .toSorted((one, other) => one.distance - other.distance || (one.test < other.test ? -1 : 1));
}
