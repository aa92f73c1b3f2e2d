import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { anchorsOf, brokenLinks, linksOf, markdownFiles, readMarkdown } from '#support/markdown';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');

test('Markdown files: every link, image and anchor leads somewhere', () => {
  const files = markdownFiles(root);

  expect(files).toEqual(expect.arrayContaining(['README.md', 'docs/tunnel.md']));
  expect(brokenLinks(root, files)).toEqual([]);
});

test('links: a broken one is reported with file, line and reason', async () => {
  await using folder = await temporaryFolder('links');
  mkdirSync(join(folder.path, 'docs'));
  writeFileSync(join(folder.path, 'docs/page.md'), '# A page\n\n## What `it` *does*, and why\n');
  writeFileSync(
    join(folder.path, 'README.md'),
    [
      '# Title',
      '[fine](docs/page.md#what-it-does-and-why), [also](#title), [web](https://example.com/x)',
      '[no file](docs/none.md) and `[code](is/no/link)`',
      '![no picture](docs/none.png)',
      '[no heading](docs/page.md#nothing)',
      '[not here](#a-page)',
      '[no URL](https://exa mple) [bad](https://[) [odd](javascript:alert)',
      '<img src="pictures/none.png" alt="">',
      '[out](../outside.md)',
    ].join('\n'),
  );

  expect(brokenLinks(folder.path, markdownFiles(folder.path))).toEqual([
    'README.md:3: docs/none.md is not in the repository',
    'README.md:4: docs/none.png is not in the repository',
    'README.md:5: docs/page.md#nothing names no heading of docs/page.md',
    'README.md:6: #a-page names no heading of README.md',
    'README.md:7: https://[ is not a URL',
    'README.md:7: javascript:alert has the scheme javascript:',
    'README.md:8: pictures/none.png is not in the repository',
    'README.md:9: ../outside.md is not in the repository',
  ]);
});

test('anchors: as GitHub makes them, numbered where headings repeat, none in code', () => {
  const page =
    '# `latchkey [connect]` – a/b\n## Same\n## Same\n```sh\n# no heading\n```\n## Ünder_score';

  expect([...anchorsOf(page)]).toEqual(['latchkey-connect--ab', 'same', 'same-1', 'ünder_score']);
});

test('code blocks: with language, line and the comment before them', () => {
  const { blocks } = readMarkdown('text\n<!-- test: one -->\n```sh\na\n```\n\n```\nb\n```\n');

  expect(blocks).toEqual([
    { line: 3, language: 'sh', text: 'a', marker: 'test: one' },
    { line: 7, language: '', text: 'b', marker: undefined },
  ]);
  expect(() => readMarkdown('```sh\na')).toThrow('the code block of line 1 has no end');
});

test('links: inline, by reference, in HTML and in angle brackets', () => {
  const page =
    '[a](b.md "title") ![c](<d.png>)\n[e]: f.md\n<a href="g.md">x</a> <https://h.example>';

  expect(linksOf(page).map(({ target }) => target)).toEqual([
    'b.md',
    'd.png',
    'f.md',
    'g.md',
    'https://h.example',
  ]);
});
