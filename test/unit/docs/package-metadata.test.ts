import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';

const root = join(import.meta.dirname, '../../..');
const text = (file: string) => readFileSync(join(root, file), 'utf8');

const manifest = z.looseObject({
  description: z.string().min(30).max(120),
  keywords: z.array(z.string().regex(/^[a-z0-9-]+$/)).min(3),
  license: z.literal('MIT'),
  // The project has no public address yet.
  homepage: z.never().optional(),
  repository: z.never().optional(),
});

test.for(['.', 'mcp', 'proxy', 'server', 'tray-app'])(
  '%s/package.json describes the package',
  (folder) => {
    expect(
      manifest.safeParse(JSON.parse(text(join(folder, 'package.json')))).error,
    ).toBeUndefined();
  },
);

test.for(['proxy', 'server'])('%s is published with the licence and words of its own', (folder) => {
  expect(text(`${folder}/LICENSE`)).toBe(text('LICENSE'));
  expect(text(`${folder}/README.md`)).toMatch(/^# latchkey/);
});

test('the licence is the MIT text by its SPDX identifier, so that tools recognise it', () => {
  const [title, blank, copyright, ...terms] = text('LICENSE').trimEnd().split('\n');

  expect([title, blank]).toEqual(['MIT License', '']);
  expect(copyright).toMatch(/^Copyright \(c\) \d{4} /);
  expect(terms.join(' ').trim()).toBe(mit);
});

test('README.md stays within 120 lines, CONTRIBUTING.md within one screen', () => {
  const lines = (file: string) => text(file).trimEnd().split('\n').length;

  expect(lines('README.md')).toBeLessThanOrEqual(120);
  expect(lines('CONTRIBUTING.md')).toBeLessThanOrEqual(60);
});

/** The text of https://spdx.org/licenses/MIT.html, with two spaces between its paragraphs. */
const mit = [
  'Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:',
  'The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.',
  'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.',
].join('  ');
