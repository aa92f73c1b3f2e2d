import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');

/** All sources of the three programs, as one text, in which messages that are split over several lines are joined again. */
const sources = ['proxy', 'server', 'tray-app']
  .flatMap((program) =>
    readdirSync(join(root, program), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(ts|js)$/.test(file) && !/(^|\/)(node_modules|dist)\//.test(file))
      .map((file) => readFileSync(join(root, program, file), 'utf8')),
  )
  .join('\n')
  .replaceAll(/' \+\s+['`]/g, '');

const page = readFileSync(join(root, 'docs/troubleshooting.md'), 'utf8');
const messages = page
  .split('\n')
  .flatMap((line) => /^\| `([^`]+)` \|/.exec(line)?.[1] ?? [])
  .filter((message) => message !== 'error');

test('docs/troubleshooting.md: every message of its tables is in the code', () => {
  const fragments = messages.flatMap((message) =>
    message
      .split('…')
      .map((fragment) => fragment.trim())
      .filter((fragment) => fragment.length > 1)
      .map((fragment) => ({ message, fragment })),
  );
  const gone = fragments.filter(({ fragment }) => !sources.includes(fragment));

  expect(messages.length).toBeGreaterThan(50);
  expect(gone).toEqual([]);
});

test('docs/troubleshooting.md: no message is listed twice', () => {
  expect(messages.filter((message, index) => messages.indexOf(message) !== index)).toEqual([]);
});
