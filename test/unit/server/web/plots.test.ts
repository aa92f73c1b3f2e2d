import { describe, expect, test } from 'vitest';

import { barPlot, callWords } from '#server/web/plots';

const from = 1_800_000_000 - (1_800_000_000 % 3600);

/** A plot of twelve hours with the values of some of them. */
function plot(
  hours: Record<number, readonly number[]>,
  names?: readonly string[],
  href?: string,
): string {
  const figure = barPlot({
    title: 'Calls per hour',
    summary: 'Calls per hour: <12>',
    from,
    until: from + 12 * 3600,
    stepSeconds: 3600,
    points: Object.entries(hours).map(([hour, values]) => ({
      at: from + Number(hour) * 3600,
      values,
    })),
    step: (point) => ({
      values: point?.values ?? [0],
      words: `${point?.values.join('/') ?? 'no'} calls`,
    }),
    format: String,
    ...(names && { names }),
    ...(href !== undefined && { href: (at: number) => `${href}${at}` }),
  });
  return figure.toString();
}

const rects = (svg: string) =>
  [
    ...svg.matchAll(
      /<rect class="(zero|part-\d)" x="[\d.]+%" width="[\d.]+%" y="([\d.]+)" height="([\d.]+)"/g,
    ),
  ].map(([, name, y, height]) => ({ name, y: Number(y), height: Number(height) }));

describe('bar plot', () => {
  test('a bar with calls leads to the page behind it, one without does not', () => {
    const svg = plot({ 3: [5] }, undefined, '/calls?at=');

    expect(
      [...svg.matchAll(/<a class="bar"[^>]* href="([^"]+)"/g)].map(([, href]) => href),
    ).toEqual([`/calls?at=${from + 3 * 3600}`]);
    expect(svg.match(/<g class="bar/g)).toHaveLength(11);
  });

  test('every hour has a bar, and one of zero stays visible', () => {
    const bars = rects(plot({ 3: [5] }));

    expect(bars).toHaveLength(12);
    expect(bars.filter(({ name }) => name === 'zero')).toHaveLength(11);
    expect(bars.every(({ height }) => height > 0)).toBe(true);
  });

  test('everything is inside the plot, the highest value at the top and all bars on one line', () => {
    const bars = rects(plot({ 0: [1], 5: [300], 11: [600] }));

    expect(Math.min(...bars.map(({ y }) => y))).toBe(28);
    expect(new Set(bars.map(({ y, height }) => y + height))).toEqual(new Set([164]));
  });

  test('the bars of one hour stand in front of each other, the highest first, and the key names them', () => {
    const svg = plot({ 4: [9, 6, 3] }, ['p99', 'p90', 'p50']);
    const parts = rects(svg).filter(({ name }) => name !== 'zero');

    expect(parts.map(({ name }) => name)).toEqual(['part-1', 'part-2', 'part-3']);
    expect(parts.map(({ height }) => height)).toEqual(
      parts.map(({ height }) => height).toSorted((a, b) => b - a),
    );
    expect(svg).toMatch(/plot-key[\s\S]*p99[\s\S]*p90[\s\S]*p50/);
  });

  test('only the last hour is the current one, and the only one in the order of the Tab key', () => {
    const bars = [
      ...plot({ 11: [2] }).matchAll(
        /<g class="bar([^"]*)" role="img" tabindex="(-?\d)" aria-label="([^"]*)"/g,
      ),
    ];

    expect(bars.filter(([, current]) => current === ' current')).toHaveLength(1);
    expect(bars.filter(([, , tabindex]) => tabindex === '0')).toHaveLength(1);
    expect(bars.at(-1)?.slice(1)).toEqual([' current', '0', '19:00–20:00, until now: 2 calls']);
    expect(bars[0]?.[3]).toBe('08:00–09:00: no calls');
  });

  test('the label of a bar is the text shown above it', () => {
    const svg = plot({ 2: [7] });
    const readouts = svg
      .split('<text class="readout"')
      .map((part) => part.split('</text>')[0] ?? '');
    const shown = readouts.find((part) => part.includes('7 calls')) ?? '';

    expect(shown.replaceAll(/^[^>]*>|<[^>]+>/g, '')).toBe('10:00–11:00: 7 calls');
    expect(svg).toContain('aria-label="10:00–11:00: 7 calls"');
    expect(shown).toContain('data-form="clock"');
  });

  test('labels are text, whatever they contain', () => {
    expect(plot({ 1: [4] })).toContain('aria-label="Calls per hour: &lt;12&gt;"');
  });

  test('the content security policy of our pages allows all of it: no style, no script, no address', () => {
    expect(plot({ 1: [1] })).not.toMatch(/style=|<style|<script|\son\w+=|href=|url\(/);
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
