import { relative } from 'node:path';

import { z } from 'zod';
import { readMarkdown } from './markdown.ts';

/** A deliberate fault: one place of one file, changed as a careless commit could change it. */
export interface Mutation {
  readonly number: number;
  readonly title: string;
  /** Its path from the root of the repository. */
  readonly file: string;
  /** The lines that are replaced, indentation included. They must occur exactly once. */
  readonly before: string;
  readonly after: string;
  /** The test files of which one must fail. */
  readonly tests: readonly string[];
}

/**
 * Reads `test/mutations.md`, whose introduction describes the format.
 *
 * @throws {Error} with one line for each problem
 */
export function readMutations(markdown: string): Mutation[] {
  const { prose, blocks } = readMarkdown(markdown);
  const problems: string[] = [];
  const headings = prose.flatMap(({ number: line, text }) => {
    const [, number, title] = /^## (\d+)\. (.+)$/.exec(text) ?? [];
    return title === undefined ? [] : [{ line, number: Number(number), title }];
  });
  if (headings.length === 0) problems.push('there is no heading such as "## 1. Title"');
  const mutations = headings.map(({ line, number, title }, index) => {
    const end = headings[index + 1]?.line ?? Infinity;
    const isInside = (at: number) => at > line && at < end;
    const lines = prose.filter((one) => isInside(one.number)).map(({ text }) => text);
    const problem = (text: string) => problems.push(`line ${line}, mutation ${number}: ${text}`);
    if (headings.findIndex((other) => other.number === number) !== index) {
      problem('the number is used twice');
    }
    const [file = '', ...moreFiles] = namesIn(lines, 'File');
    if (file === '' || moreFiles.length > 0) problem('needs one line "- File: `path`"');
    const tests = namesIn(lines, 'Caught by');
    if (tests.length === 0) problem('needs a line "- Caught by: `path`, `path`"');
    for (const test of tests.filter((path) => !isNormalTest(path))) {
      problem(`${test} is not a test file of the levels unit, contract, e2e or alone`);
    }
    const [before, after, ...more] = blocks.filter((block) => isInside(block.line));
    if (!before || !after || more.length > 0) {
      problem('needs two code blocks: the lines to replace, and their replacement');
    } else if (before.text.trim() === '') problem('the first code block is empty');
    else if (before.text === after.text) problem('the replacement changes nothing');
    return { number, title, file, before: before?.text ?? '', after: after?.text ?? '', tests };
  });
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return mutations;
}

/** The names in backquotes of the list item that begins with `label`. */
function namesIn(lines: readonly string[], label: string): string[] {
  const item = lines.find((line) => line.startsWith(`- ${label}: `)) ?? '';
  return [...item.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
}

function isNormalTest(path: string): boolean {
  return /^test\/(unit|contract|e2e)\/.+\.test\.ts$/.test(path) && !path.endsWith('.full.test.ts');
}

/**
 * `source` with the mutation made.
 *
 * @throws {Error} when the lines to replace do not occur exactly once
 */
export function mutate(source: string, { number, title, file, before, after }: Mutation): string {
  const text = `\n${source}\n`;
  const anchor = `\n${before}\n`;
  const at = text.indexOf(anchor);
  const name = `mutation ${number} (${title})`;
  if (at < 0) throw new Error(`${name}: ${file} does not contain the lines to replace`);
  if (text.includes(anchor, at + 1)) {
    throw new Error(`${name}: ${file} contains the lines to replace more than once`);
  }
  return `${text.slice(0, at)}\n${after}\n${text.slice(at + anchor.length)}`.slice(1, -1);
}

/** The parts of vitest's JSON report that are read. */
export const testReportSchema = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.enum(['passed', 'failed']),
      message: z.string(),
      assertionResults: z.array(
        z.object({
          fullName: z.string(),
          status: z.string(),
          failureMessages: z.array(z.string()).nullish(),
        }),
      ),
    }),
  ),
});

export type TestReport = z.infer<typeof testReportSchema>;

export type Verdict =
  | { readonly outcome: 'caught'; readonly file: string; readonly test: string }
  | { readonly outcome: 'missed'; readonly why: string };

/**
 * Whether a test noticed the mutation: one of its assertions failed. A file that cannot be loaded, a hook that fails and
 * a test that takes too long are no proof, as a mutation that breaks everything needs no test.
 *
 * `report` is `undefined` when vitest wrote none.
 */
export function verdictOf(report: TestReport | undefined, root: string): Verdict {
  const results = report?.testResults ?? [];
  const tests = results.flatMap(({ name, assertionResults }) =>
    assertionResults.map((one) => ({ ...one, file: relative(root, name) })),
  );
  const failed = tests.filter(({ status }) => status === 'failed');
  const noticed = failed.find(({ failureMessages }) => failureMessages?.some(isAssertion));
  if (noticed) {
    return { outcome: 'caught', file: noticed.file, test: noticed.fullName.trim() };
  }
  return { outcome: 'missed', why: whyMissed(report, { tests, failed, root }) };
}

/** Whether a failure message is from an assertion: of Chai, of `toMatchObject` or of `rejects`. */
function isAssertion(message: string): boolean {
  return /^(AssertionError|Error: (expected |promise (resolved|rejected) ))/.test(message);
}

function whyMissed(
  report: TestReport | undefined,
  {
    tests,
    failed: [failed],
    root,
  }: {
    tests: readonly { readonly status: string }[];
    failed: readonly {
      file: string;
      fullName: string;
      failureMessages?: string[] | null | undefined;
    }[];
    root: string;
  },
): string {
  if (!report) return 'vitest wrote no report';
  if (failed) {
    const [message = ''] = failed.failureMessages?.[0]?.split('\n') ?? [];
    return `no assertion failed, but ${failed.file}: ${failed.fullName.trim()}: ${message}`;
  }
  const broken = report.testResults.find(({ status }) => status === 'failed');
  if (broken) {
    const [message = ''] = broken.message.split('\n');
    return `failed outside its tests: ${relative(root, broken.name)}: ${message}`;
  }
  const passed = tests.filter(({ status }) => status === 'passed').length;
  return passed === 0 ? 'no test ran' : `${passed} tests passed`;
}
