import { expect, test } from 'vitest';
import { summary, type Report } from '#support/summary';

type Tests = Report['testResults'][number]['assertionResults'];

const a = (status: string, suite = 'a suite', missing?: string[]): Tests[number] => ({
  ancestorTitles: ['', suite],
  status,
  meta: missing ? { missing } : {},
});

const noTime = { startTime: 0, endTime: 0 };
const slowest = ['slowest files:', '    0.0 s  a.test.ts'];

const report = (...tests: Tests): Report => {
  const failed = tests.some(({ status }) => status === 'failed');
  const status = failed ? 'failed' : 'passed';
  return { testResults: [{ name: 'a.test.ts', status, ...noTime, assertionResults: tests }] };
};

test('summary: the totals are the last line', () => {
  expect(summary(report(a('passed'), a('passed')), 0)).toEqual({
    lines: [...slowest, '2 passed, 0 failed'],
    exitCode: 0,
  });
});

test('summary: a failed test fails the run', () => {
  expect(summary(report(a('passed'), a('failed')), 1)).toEqual({
    lines: [...slowest, '1 passed, 1 failed'],
    exitCode: 1,
  });
});

test('summary: a missing requirement is one line with its suites, reason and remedy', () => {
  const tests = [
    a('skipped', 'sign-in', ['browser']),
    a('skipped', 'consent', ['browser', 'nginx']),
    a('skipped', 'consent', ['browser']),
    a('passed'),
    a('todo'),
  ];

  expect(summary(report(...tests), 0)).toEqual({
    lines: [
      ...slowest,
      'skipped: sign-in, consent (3 tests): pages are tested in a real browser; apt-get install chromium-headless-shell',
      'skipped: consent (1 test): the server is tested behind a real nginx; apt-get install nginx',
      '1 passed, 0 failed, 4 skipped',
    ],
    exitCode: 0,
  });
});

test('summary: a file that cannot be loaded is a failure', () => {
  const { testResults } = report(a('passed'));
  const broken: Report['testResults'][number] = {
    name: 'b.test.ts',
    status: 'failed',
    ...noTime,
    assertionResults: [],
  };

  expect(summary({ testResults: [...testResults, broken] }, 1)).toEqual({
    lines: [
      ...slowest,
      '    0.0 s  b.test.ts',
      'failed outside its tests: b.test.ts',
      '1 passed, 1 failed',
    ],
    exitCode: 1,
  });
});

test('summary: vitest without a report is a failure', () => {
  expect(summary(undefined, 0)).toEqual({
    lines: ['failed: vitest ended without a report', '0 passed, 1 failed'],
    exitCode: 1,
  });
});

test('summary: vitest failing while its tests pass is a failure', () => {
  expect(summary(report(a('passed')), 1)).toEqual({
    lines: [...slowest, 'failed: vitest ended with 1, see above', '1 passed, 1 failed'],
    exitCode: 1,
  });
  expect(summary(report(a('passed')), null).exitCode).toBe(1);
});

test('summary: a run in which no test ran is a failure', () => {
  expect(summary(report(a('skipped')), 0)).toEqual({
    lines: [...slowest, 'failed: no test ran', '0 passed, 1 failed, 1 skipped'],
    exitCode: 1,
  });
});

test('summary: the ten slowest files come first, the slowest at the top', () => {
  const assertionResults = [a('passed')];
  const testResults = Array.from({ length: 12 }, (_, seconds) => {
    const times = { startTime: 0, endTime: seconds * 1000 };
    return { name: `${seconds}.test.ts`, status: 'passed' as const, ...times, assertionResults };
  });

  const { lines } = summary({ testResults }, 0);

  expect(lines.slice(0, 3)).toEqual([
    'slowest files:',
    '   11.0 s  11.test.ts',
    '   10.0 s  10.test.ts',
  ]);
  expect(lines.slice(10)).toEqual(['    2.0 s  2.test.ts', '12 passed, 0 failed']);
});

test('summary: the files with the most processor time follow the slowest, after the sum', () => {
  const times = Array.from({ length: 12 }, (_, seconds) => ({
    file: `${seconds}.test.ts`,
    seconds,
  }));

  const { lines } = summary(report(a('passed')), 0, [], times);

  expect(lines.slice(2, 5)).toEqual([
    'processor time, 66 s in all, most for:',
    '   11.0 s  11.test.ts',
    '   10.0 s  10.test.ts',
  ]);
  expect(lines.slice(12)).toEqual(['    2.0 s  2.test.ts', '1 passed, 0 failed']);
});

test('summary: each leftover of a run is a failure', () => {
  expect(summary(report(a('passed')), 0, ['a test left x-1', 'a test left process 7'])).toEqual({
    lines: [
      ...slowest,
      'failed: a test left x-1',
      'failed: a test left process 7',
      '1 passed, 2 failed',
    ],
    exitCode: 1,
  });
});
