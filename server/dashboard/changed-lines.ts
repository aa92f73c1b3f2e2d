import { diffLines } from 'diff';

/** A line of two texts held side by side: in both, only in the first, or only in the second. */
export interface ChangedLine {
  readonly sign: '+' | '−' | ' ';
  readonly text: string;
}

/** Longer comparisons tell nobody more, and take longer than a page may. */
const mostEdits = 300;

/** What is different between two texts, by lines. Texts with little in common are shown one after the other. */
export function changedLines(before: string, after: string): ChangedLine[] {
  const parts = diffLines(before, after, { maxEditLength: mostEdits }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  return parts.flatMap(({ value, added, removed }) => {
    const sign = added ? '+' : removed ? '−' : ' ';
    return value
      .replace(/\n$/, '')
      .split('\n')
      .map((text) => ({ sign, text }) as const);
  });
}
