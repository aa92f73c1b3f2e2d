import { describe, expect, test } from 'vitest';

import { callWords, linePlot, plotTimes, type PlotLine } from '#server/web/plots';

const from = 1_800_000_000 - (1_800_000_000 % 3600);

/** A plot of twelve hours; each line has its values by the hour. */
function plot(...lines: [string, Record<number, number>][]): string {
  const figure = linePlot({
    title: 'Calls per hour',
    summary: 'Calls per hour: sales 12',
    from,
    until: from + 12 * 3600,
    stepSeconds: 3600,
    times: plotTimes(from, from + 12 * 3600),
    lines: lines.map(([label, hours]): PlotLine => {
      const values = Object.entries(hours).map(([hour, value]) => [Number(hour), value] as const);
      return { label, values: new Map(values.map(([hour, value]) => [from + hour * 3600, value])) };
    }),
    format: String,
  });
  return figure.toString();
}

const paths = (svg: string) =>
  [...svg.matchAll(/<path class="([^"]+)" d="([^"]*)"/g)].map(([, name, d]) => [name, d]);

describe('line plot', () => {
  test('hours without data break the line', () => {
    const [[, line = ''] = []] = paths(plot(['sales', { 0: 1, 1: 2, 2: 3, 6: 4, 7: 5 }]));

    expect(line.match(/M/g)).toHaveLength(2);
    expect(line.match(/L/g)).toHaveLength(3);
  });

  test('a single hour is a dot, and a line without data is not drawn', () => {
    expect(paths(plot(['sales', { 5: 3 }], ['idle', {}]))).toEqual([
      ['line-1 dot', expect.stringMatching(/^M458\.3,8h0$/)],
    ]);
  });

  test('everything is inside the plot, the highest value at the top and zero at the bottom', () => {
    const [[, line = ''] = []] = paths(plot(['sales', { 0: 0, 11: 600 }]));
    const dots = line === '' ? '' : line;

    expect(dots).toBe('M41.7,152h0M958.3,8h0');
  });

  test('every line is named where it ends, and no two names overlap', () => {
    const svg = plot(['sales', { 11: 4 }], ['support', { 11: 4 }], ['legal', { 11: 4 }]);
    const names = [...svg.matchAll(/y="([\d.]+)"[^>]*class="name-\d">(\w+)/g)];
    const places = names.map(([, y]) => Number(y)).toSorted((a, b) => a - b);

    expect(new Set(names.map(([, , name]) => name))).toEqual(
      new Set(['legal', 'sales', 'support']),
    );
    expect((places[1] ?? 0) - (places[0] ?? 0)).toBeGreaterThanOrEqual(15);
    expect((places[2] ?? 0) - (places[1] ?? 0)).toBeGreaterThanOrEqual(15);
  });

  test('a name that somebody else chose is text, whatever is in it', () => {
    const svg = plot(['<script>"x"&\u202e', { 11: 4 }]);

    expect(svg).not.toContain('<script>');
    expect(svg).not.toContain('\u202e');
    expect(svg).toContain('&lt;script&gt;&quot;x&quot;&amp;');
  });

  test('the content security policy of our pages allows all of it: no style, no script, no address', () => {
    expect(plot(['sales', { 1: 1 }])).not.toMatch(/style=|<style|<script|\son\w+=|href=|url\(/);
  });
});

test.each([
  [0, '0'],
  [7, '7'],
  [999, '999'],
  [1000, '1,000'],
  [1234, '1,234'],
  [9009, '9,009'],
  [9999, '9,999'],
  [10_000, '10K'],
  [12_345, '12.3K'],
  [1_000_000, '1M'],
])('callWords: %s calls are %s', (calls, words) => {
  expect(callWords(calls)).toBe(words);
});
