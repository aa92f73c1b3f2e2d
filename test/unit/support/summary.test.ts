import { expect, test } from 'vitest';
import { summary, type Report } from '#support/summary';

type Tests = Report['testResults'][number]['assertionResults'];

const a = (status: string, suite = 'a suite', missing?: string[]): Tests[number] => ({
  ancestorTitles: ['', suite],
  status,
  meta: missing ? { missing } : {},
});

const report = (...tests: Tests): Report => {
  const failed = tests.some(({ status }) => status === 'failed');
  const status = failed ? 'failed' : 'passed';
  return { testResults: [{ name: 'a.test.ts', status, assertionResults: tests }] };
};

test('the totals are the last line', () => {
  expect(summary(report(a('passed'), a('passed')), 0)).toEqual({
    lines: ['2 passed, 0 failed'],
    exitCode: 0,
  });
});

test('a failed test fails the run', () => {
  expect(summary(report(a('passed'), a('failed')), 1)).toEqual({
    lines: ['1 passed, 1 failed'],
    exitCode: 1,
  });
});

test('a missing requirement is one line with its suites, its reason and its remedy', () => {
  const tests = [
    a('skipped', 'sign-in', ['browser']),
    a('skipped', 'consent', ['browser', 'nginx']),
    a('skipped', 'consent', ['browser']),
    a('passed'),
    a('todo'),
  ];

  expect(summary(report(...tests), 0)).toEqual({
    lines: [
      'skipped: sign-in, consent (3 tests): pages are tested in a real browser; apt-get install chromium',
      'skipped: consent (1 test): the server is tested behind a real nginx; apt-get install nginx',
      '1 passed, 0 failed, 4 skipped',
    ],
    exitCode: 0,
  });
});

test('a file that cannot be loaded is a failure', () => {
  const { testResults } = report(a('passed'));
  const broken: Report['testResults'][number] = {
    name: 'b.test.ts',
    status: 'failed',
    assertionResults: [],
  };

  expect(summary({ testResults: [...testResults, broken] }, 1)).toEqual({
    lines: ['failed outside its tests: b.test.ts', '1 passed, 1 failed'],
    exitCode: 1,
  });
});

test('a vitest that wrote no report is a failure', () => {
  expect(summary(undefined, 0)).toEqual({
    lines: ['failed: vitest ended without a report', '0 passed, 1 failed'],
    exitCode: 1,
  });
});

test('a vitest that fails while its tests pass is a failure', () => {
  expect(summary(report(a('passed')), 1)).toEqual({
    lines: ['failed: vitest ended with 1, see above', '1 passed, 1 failed'],
    exitCode: 1,
  });
  expect(summary(report(a('passed')), null).exitCode).toBe(1);
});

test('a run in which no test ran is a failure', () => {
  expect(summary(report(a('skipped')), 0)).toEqual({
    lines: ['failed: no test ran', '0 passed, 1 failed, 1 skipped'],
    exitCode: 1,
  });
});
