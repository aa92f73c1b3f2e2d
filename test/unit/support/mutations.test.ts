import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { mutate, readMutations, verdictOf, type TestReport } from '#support/mutations';

const fence = '```';
const block = (text: string) => [`${fence}ts`, text, fence];
const section = ({
  heading = '## 1. A key opens everything',
  file = '- File: `server/a.ts`',
  tests = '- Caught by: `test/unit/a.test.ts`, `test/e2e/b.alone.test.ts`',
  blocks = ['  if (isRight) open();', '  open();'],
}: {
  heading?: string;
  file?: string;
  tests?: string;
  blocks?: readonly string[];
} = {}) =>
  [heading, '', 'Anybody may enter.', '', file, tests, '', ...blocks.flatMap(block), ''].join('\n');

describe('mutations.md', () => {
  test('each numbered heading is a mutation, with its file, its tests and both code blocks', () => {
    const introduction = ['# Mutation check', '', ...block('npm run mutations')].join('\n');
    const other = section({ heading: '## 12. Another', blocks: ['a', ''] });

    expect(readMutations(`${introduction}\n${section()}\n${other}`)).toEqual([
      {
        number: 1,
        title: 'A key opens everything',
        file: 'server/a.ts',
        before: '  if (isRight) open();',
        after: '  open();',
        tests: ['test/unit/a.test.ts', 'test/e2e/b.alone.test.ts'],
      },
      expect.objectContaining({ number: 12, title: 'Another', before: 'a', after: '' }),
    ]);
  });

  test.for<[string, string, string]>([
    ['no mutation', '# Nothing', 'there is no heading such as "## 1. Title"'],
    ['a number that is used twice', section() + section(), 'mutation 1: the number is used twice'],
    ['no file', section({ file: '' }), 'line 1, mutation 1: needs one line "- File: `path`"'],
    ['no tests', section({ tests: '' }), 'needs a line "- Caught by: `path`, `path`"'],
    [
      'a test of the level full',
      section({ tests: '- Caught by: `test/e2e/a.full.test.ts`' }),
      'test/e2e/a.full.test.ts is not a test file of the levels',
    ],
    ['one code block', section({ blocks: ['a'] }), 'needs two code blocks'],
    ['three code blocks', section({ blocks: ['a', 'b', 'c'] }), 'needs two code blocks'],
    ['nothing to replace', section({ blocks: ['', 'b'] }), 'the first code block is empty'],
    ['no change', section({ blocks: ['a', 'a'] }), 'the replacement changes nothing'],
  ])('refuses %s', ([, markdown, problem]) => {
    expect(() => readMutations(markdown)).toThrow(problem);
  });
});

describe('a mutation', () => {
  const seven = { number: 7, title: 'T', file: 'f', before: 'b\n  c', after: '$& d', tests: [] };
  const made = (source: string) => mutate(source, seven);

  test('replaces whole lines, as they are written', () => {
    expect(made('a\nb\n  c\nd\n')).toBe('a\n$& d\nd\n');
    expect(made('b\n  c')).toBe('$& d');
  });

  test.each([
    ['that are not there', 'a\nb\nc\n', 'mutation 7 (T): f does not contain the lines to replace'],
    ['that are parts of lines', 'ab\n  c\n', 'f does not contain the lines to replace'],
    ['that are there twice', 'b\n  c\nb\n  c\n', 'f contains the lines to replace more than once'],
  ])('refuses lines %s', (_, source, problem) => {
    expect(() => made(source)).toThrow(problem);
  });
});

describe('the verdict on a mutation', () => {
  type File = TestReport['testResults'][number];
  const file = (but: Partial<File>): File => ({
    name: '/copy/test/a.test.ts',
    status: 'failed',
    message: '',
    assertionResults: [],
    ...but,
  });
  const a = (message?: string): File['assertionResults'][number] => ({
    fullName: ' a key opens its server',
    status: message === undefined ? 'passed' : 'failed',
    failureMessages: message === undefined ? [] : [message],
  });
  const verdict = (...testResults: File[]) => verdictOf({ testResults }, '/copy');

  test.each([
    'AssertionError: expected 200 to be 401\n    at a.test.ts:1:1',
    'Error: expected OutboundError: x to match object { code: y }',
    'Error: promise resolved "1" instead of rejecting',
  ])('is caught where an assertion failed: %s', (message) => {
    expect(verdict(file({ assertionResults: [a(), a('Error: no line'), a(message)] }))).toEqual({
      outcome: 'caught',
      file: 'test/a.test.ts',
      test: 'a key opens its server',
    });
  });

  test.each<[string, File[], string]>([
    ['every test passed', [file({ status: 'passed', assertionResults: [a()] })], '1 tests passed'],
    [
      'a test took too long',
      [file({ assertionResults: [a('Error: Test timed out in 20000ms.\nIf this')] })],
      'no assertion failed, but test/a.test.ts: a key opens its server: Error: Test timed out in 20000ms.',
    ],
    [
      'a file cannot be loaded',
      [file({ message: 'SyntaxError: Unexpected token\n  at x' }), file({ status: 'passed' })],
      'failed outside its tests: test/a.test.ts: SyntaxError: Unexpected token',
    ],
    ['no test ran', [], 'no test ran'],
  ])('is missed where %s', (_, files, why) => {
    expect(verdict(...files)).toEqual({ outcome: 'missed', why });
  });

  test('is missed where vitest wrote no report', () => {
    expect(verdictOf(undefined, '/copy')).toEqual({
      outcome: 'missed',
      why: 'vitest wrote no report',
    });
  });
});

const root = join(import.meta.dirname, '../../..');

test.each(
  readMutations(readFileSync(join(root, 'test/mutations.md'), 'utf8')).map((one) => [
    one.title,
    one,
  ]),
)('mutation “%s” applies to the sources as they are', (_, mutation) => {
  const source = readFileSync(join(root, mutation.file), 'utf8');

  expect(mutate(source, mutation)).not.toBe(source);
});
