import { expect, test } from 'vitest';

import { printMade, printRows } from '#server/admin/print';

const nasty = 'a\u001b[2Jb\rc\nd\u202ee\u0007';

function printed(print: (out: (line: string) => void) => void): string[] {
  const lines: string[] = [];
  print((line) => lines.push(line));
  return lines;
}

test('a name cannot control the terminal of a command that lists or creates it', () => {
  const rows = printed((out) => printRows([{ name: nasty }], { json: false, empty: '', out }));
  const made = printed((out) => printMade({ name: nasty }, { json: false, out }));

  for (const line of [rows[1], made[0]])
    expect(line).toContain(String.raw`a\u001b[2Jb\u000dc\u000ad\u202ee\u0007`);
});

test('JSON contains a name unchanged', () => {
  const lines = printed((out) => printMade({ name: nasty }, { json: true, out }));

  expect(JSON.parse(lines.join('\n'))).toEqual({ name: nasty });
});
