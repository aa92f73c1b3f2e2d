import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
const folderOfProject = /^(?:server|proxy|mcp|tray-app|scripts|test|docs)(?:\/|$)/;
const file = /^[\w/.-]+\.(?:ts|md|js)$/;
const folder = /^[\w/-]+\/?$/;

const isThere = (path: string) => existsSync(join(root, path));
const fromRoot = (path: string) => (folderOfProject.test(path) ? path : `server/${path}`);
const codeIn = (part: string) => [...part.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);

/** The folders that a cell names, and the folders of the files that it names. */
function foldersOf(cell: string): string[] {
  return codeIn(cell)
    .map(fromRoot)
    .filter(isThere)
    .map((path) => (file.test(path) ? dirname(path) : path));
}

/** The files that a part of the document names, each with its possible paths. `given` are the folders in which bare names are looked up. */
function named(part: string, given: readonly string[]): { name: string; places: string[] }[] {
  let last = given;
  const found: { name: string; places: string[] }[] = [];
  for (const code of codeIn(part)) {
    if (file.test(code) && code.includes('/')) {
      found.push({ name: code, places: [fromRoot(code)] });
      if (given.length === 0) last = [dirname(fromRoot(code))];
    } else if (file.test(code)) {
      found.push({ name: code, places: [code, ...last.map((place) => join(place, code))] });
    } else if (folder.test(code) && code.includes('/') && isThere(fromRoot(code))) {
      if (given.length === 0) last = [fromRoot(code)];
    }
  }
  return found;
}

test('ARCHITECTURE.md: every file that it names is where it says', () => {
  const all = [];
  let heads: string[][] = [];
  let ofList: string[] = [];
  for (const block of text.split(/\n\n|\n(?=- |\d+\. |\||#)/)) {
    if (block.startsWith('|')) {
      const [first = '', ...cells] = block.split('|').slice(1, -1);
      if (heads.length === 0) heads = cells.map(foldersOf);
      all.push(...named(first, []));
      cells.forEach((cell, place) => {
        const ofColumn = heads[place] ?? [];
        all.push(...named(cell, ofColumn.length > 0 ? ofColumn : foldersOf(first)));
      });
      continue;
    }
    heads = [];
    if (block.startsWith('#')) ofList = [];
    const files = /\(files are in (`[^`]+`)\)/.exec(block)?.[1];
    if (files !== undefined) ofList = foldersOf(files);
    else all.push(...named(block, ofList));
  }

  expect(all.length).toBeGreaterThan(400);
  const missing = all.filter(({ places }) => !places.some(isThere)).map(({ name }) => name);
  expect(missing).toEqual([]);
});
