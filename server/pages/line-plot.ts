import { scaleLinear, scaleUtc } from 'd3-scale';
import { line as lineShape } from 'd3-shape';

import type { EpochSeconds } from '#clock/clock';
import { escaped, shownName } from './plain-text.ts';

/** One line: a value a step, and nothing where there is no data. */
export interface PlotLine {
  readonly label: string;
  readonly values: ReadonlyMap<EpochSeconds, number>;
}

/** A plot of a time: `from` belongs to it, `until` no more, and each `stepSeconds` of it may have a value a line. */
export interface LinePlot {
  readonly title: string;
  /** What the plot shows, for who cannot see it. */
  readonly summary: string;
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** Of `plotTimes`. */
  readonly times: string;
  /** At most five. */
  readonly lines: readonly PlotLine[];
  /** A value as the axis has it. */
  readonly format: (value: number) => string;
}

const height = 176;
const [top, bottom] = [8, 24];
const width = 1000;
const labelGap = 15;

/**
 * A plot of lines over time as a figure: thin lines, named where they end, broken where there is no data.
 * SVG of attributes alone, as the policy of our pages allows no style in it. The middle stretches with the
 * window; text and lines keep their size, as text stands in percent and lines do not scale.
 */
export function linePlot(plot: LinePlot): string {
  const { title, summary, lines, format, times } = plot;
  const most = Math.max(1, ...lines.flatMap(({ values }) => [...values.values()]));
  const y = scaleLinear([0, most], [height - bottom, top]).nice(3);
  const ticks = y.ticks(3).filter((tick) => format(tick) !== '' && y(tick) >= 0);
  const grid = ticks.map(
    (tick) => `<line x1="0" x2="100%" y1="${px(y(tick))}" y2="${px(y(tick))}"/>`,
  );
  const values = ticks.map((tick) => text('100%', y(tick) + 4, format(tick), 'end'));
  const paths = lines.map((one, index) => drawn(one, index + 1, plot, y));
  return `<figure class="plot"><figcaption>${escaped(title)}</figcaption><div class="plot-frame">
<svg class="plot-values" height="${height}" aria-hidden="true">${values.join('')}</svg>
<svg class="plot-area" height="${height}" role="img" aria-label="${escaped(summary)}">
<g class="plot-grid">${grid.join('')}</g>
<svg viewBox="0 0 ${width} ${height}" width="100%" height="${height}" preserveAspectRatio="none">${paths.join('')}</svg>
<g class="plot-times" aria-hidden="true">${times}</g></svg>
<svg class="plot-labels" height="${height}" aria-hidden="true">${labels(lines, y)}</svg>
</div></figure>`;
}

type Scale = (value: number) => number;

/** The steps with a value, joined where they follow each other; one on its own is a dot. */
function drawn(
  { values }: PlotLine,
  place: number,
  { from, until, stepSeconds }: LinePlot,
  y: Scale,
): string {
  const steps = Array.from({ length: (until - from) / stepSeconds }, (_, step) =>
    values.get(from + step * stepSeconds),
  );
  const shape = lineShape<number | undefined>()
    .defined((value) => value !== undefined)
    .x((_, step) => ((step + 0.5) / steps.length) * width)
    .y((value) => y(value ?? 0))
    .digits(1);
  const parts = (shape(steps) ?? '').match(/M[^M]+/g) ?? [];
  const of = (isDot: boolean) => parts.filter((part) => part.endsWith('Z') === isDot).join('');
  const [dots, lines] = [of(true).replaceAll('Z', 'h0'), of(false)];
  return [
    lines && `<path class="line-${place}" d="${lines}"/>`,
    dots && `<path class="line-${place} dot" d="${dots}"/>`,
  ].join('');
}

/** The lines' names where they end, moved apart where they would meet. */
function labels(lines: readonly PlotLine[], y: Scale): string {
  const places = lines
    .map(({ label, values }, index) => ({ label, index, at: y([...values.values()].at(-1) ?? 0) }))
    .toSorted((a, b) => a.at - b.at);
  let above = -labelGap;
  for (const place of places) {
    place.at = Math.max(place.at, above + labelGap);
    above = place.at;
  }
  let below = height - bottom + labelGap;
  for (const place of places.toReversed()) {
    place.at = Math.min(place.at, below - labelGap);
    below = place.at;
  }
  return places
    .map(({ label, index, at }) =>
      text('6', at + 4, shownName(label, 18), 'start', `name-${index + 1}`),
    )
    .join('');
}

/** The times under plots from `from` until `until`, which all of a page share. */
export function plotTimes(from: EpochSeconds, until: EpochSeconds): string {
  const x = scaleUtc([new Date(from * 1000), new Date(until * 1000)], [0, 100]);
  const isDays = until - from > 2 * 86_400;
  return x
    .ticks(4)
    .filter((tick) => x(tick) >= 4 && x(tick) <= 96)
    .map((tick) =>
      text(`${px(x(tick))}%`, height - 6, isDays ? dayWords(tick) : clock(tick), 'middle'),
    )
    .join('');
}

const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

function dayWords(time: Date): string {
  return days.format(time);
}

function clock(time: Date): string {
  return time.toISOString().slice(11, 16);
}

function text(x: string, y: number, words: string, anchor: string, name = ''): string {
  const of = name && ` class="${name}"`;
  return `<text x="${x}" y="${px(y)}" text-anchor="${anchor}"${of}>${escaped(words)}</text>`;
}

function px(value: number): number {
  return Math.round(value * 10) / 10;
}
