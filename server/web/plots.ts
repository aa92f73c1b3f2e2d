import { scaleLinear, scaleUtc } from 'd3-scale';
import { line as lineShape } from 'd3-shape';

import type { EpochSeconds } from '#clock/clock';
import { displayName, html, type Html } from './html.ts';

/** One line: a value for each step, and none where there is no data. */
export interface PlotLine {
  readonly label: string;
  readonly values: ReadonlyMap<EpochSeconds, number>;
}

/** A plot over time, from `from` (inclusive) to `until` (exclusive); each line may have a value every `stepSeconds`. */
interface LinePlot {
  readonly title: string;
  /** What the plot shows, for screen readers. */
  readonly summary: string;
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** Of `plotTimes`. */
  readonly times: Html;
  /** At most five. */
  readonly lines: readonly PlotLine[];
  /** A value as the axis shows it. */
  readonly format: (value: number) => string;
}

const height = 176;
const [top, bottom] = [8, 24];
const width = 1000;
const labelGap = 15;

/**
 * A line plot over time as a figure: thin lines, labelled where they end, interrupted where there is no data. The SVG
 * uses attributes alone, because the content security policy allows no inline styles. The middle stretches with the
 * window while text and strokes keep their size: text is positioned in percent, and strokes do not scale.
 */
export function linePlot(plot: LinePlot): Html {
  const { title, summary, lines, format, times } = plot;
  const most = Math.max(1, ...lines.flatMap(({ values }) => [...values.values()]));
  const y = scaleLinear([0, most], [height - bottom, top]).nice(3);
  const ticks = y.ticks(3).filter((tick) => format(tick) !== '' && y(tick) >= 0);
  const grid = ticks.map(
    (tick) => html`<line x1="0" x2="100%" y1="${px(y(tick))}" y2="${px(y(tick))}"/>`,
  );
  const values = ticks.map((tick) => label('100%', y(tick) + 4, format(tick), 'end'));
  const paths = lines.map((one, index) => linePaths(one, index + 1, plot, y));
  return html`<figure class="plot">
<figcaption>${title}</figcaption>
<div class="plot-frame">
<svg class="plot-values" height="${height}" aria-hidden="true">${values}</svg>
<svg class="plot-area" height="${height}" role="img" aria-label="${summary}">
<g class="plot-grid">${grid}</g>
<svg viewBox="0 0 ${width} ${height}" width="100%" height="${height}" preserveAspectRatio="none">
${paths}
</svg>
<g class="plot-times" aria-hidden="true">${times}</g>
</svg>
<svg class="plot-labels" height="${height}" aria-hidden="true">${lineNames(lines, y)}</svg>
</div>
</figure>`;
}

type Scale = (value: number) => number;

/** The steps with a value, connected where adjacent; a single one is a dot. */
function linePaths(
  { values }: PlotLine,
  place: number,
  { from, until, stepSeconds }: LinePlot,
  y: Scale,
): Html {
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
  return html`${lines && html`<path class="line-${place}" d="${lines}"/>`}${dots && html`<path class="line-${place} dot" d="${dots}"/>`}`;
}

/** The labels of the lines where they end, moved apart if they would overlap. */
function lineNames(lines: readonly PlotLine[], y: Scale): Html {
  const places = lines
    .map(({ label: name, values }, index) => ({
      name,
      index,
      at: y([...values.values()].at(-1) ?? 0),
    }))
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
  return html`${places.map(({ name, index, at }) =>
    label('6', at + 4, displayName(name, 18), 'start', `name-${index + 1}`),
  )}`;
}

/** The times under plots from `from` until `until`, shared by all plots of a page. */
export function plotTimes(from: EpochSeconds, until: EpochSeconds): Html {
  const x = scaleUtc([new Date(from * 1000), new Date(until * 1000)], [0, 100]);
  const isDays = until - from > 2 * 86_400;
  const ticks = x.ticks(4).filter((tick) => x(tick) >= 4 && x(tick) <= 96);
  return html`${ticks.map((tick) =>
    label(`${px(x(tick))}%`, height - 6, isDays ? dayWords(tick) : clock(tick), 'middle'),
  )}`;
}

const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

function dayWords(time: Date): string {
  return days.format(time);
}

function clock(time: Date): string {
  return time.toISOString().slice(11, 16);
}

function label(x: string, y: number, words: string, anchor: string, className?: string): Html {
  return html`<text x="${x}" y="${px(y)}" text-anchor="${anchor}"${className && html` class="${className}"`}>${words}</text>`;
}

function px(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Calls of one step, or of all of them. */
interface PlottedCalls {
  readonly calls: number;
  readonly errors: number;
}

/** How long they took, in ms. */
interface PlottedLatencies {
  readonly p50: number | undefined;
  readonly p90: number | undefined;
  readonly p99: number | undefined;
}

type Point<Values> = Values & { readonly at: EpochSeconds };

/** Calls over time under one name. */
interface PlottedLine {
  readonly name: string;
  readonly total: PlottedCalls;
  readonly points: readonly Point<PlottedCalls>[];
}

export interface PlottedUsage {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** The total: its latencies, and the values to plot if there are no lines. */
  readonly whole: {
    readonly name: string;
    readonly total: PlottedCalls & PlottedLatencies;
    readonly points: readonly Point<PlottedCalls & PlottedLatencies>[];
  };
  readonly lines: readonly PlottedLine[];
}

/** The plots of usage: calls, errors, and how long calls took. */
export function usagePlots(usage: PlottedUsage): readonly Html[] {
  const { whole } = usage;
  const latencies = ['p50', 'p90', 'p99'] as const;
  const at = timeAxis(usage);
  const latencyPlot = linePlot({
    ...at,
    title: 'How long calls took',
    summary: `How long calls took: ${latencies.map((name) => `${name} ${msWords(whole.total[name])}`).join(', ')}`,
    lines: latencies.map((name) => lineOf(name, whole.points, (point) => point[name])),
    format: msWords,
  });
  return [...callPlots(usage, at), latencyPlot];
}

/** Only the plots of calls and errors. */
export function callPlots(usage: PlottedUsage, at = timeAxis(usage)): readonly Html[] {
  const { whole, lines, stepSeconds } = usage;
  const plotted = lines.length > 0 ? lines : [whole];
  const step = stepWords(stepSeconds);
  const counts = (title: string, of: (point: PlottedCalls) => number) =>
    linePlot({
      ...at,
      title: `${title} per ${step}`,
      summary: `${title} per ${step}: ${plotted.map((one) => `${one.name} ${callWords(of(one.total))}`).join(', ')}`,
      lines: plotted.map((one) => lineOf(one.name, one.points, of)),
      format: (value) => (Number.isInteger(value) ? callWords(value) : ''),
    });
  return [counts('Calls', ({ calls }) => calls), counts('Errors', ({ errors }) => errors)];
}

/** The time axis that all plots of a page share. */
function timeAxis({ from, until, stepSeconds }: PlottedUsage) {
  return { from, until, stepSeconds, times: plotTimes(from, until) };
}

function lineOf<Values>(
  name: string,
  points: readonly Point<Values>[],
  of: (point: Values) => number | undefined,
): PlotLine {
  const values = new Map<EpochSeconds, number>();
  for (const point of points) {
    const value = of(point);
    if (value !== undefined) values.set(point.at, value);
  }
  return { label: name, values };
}

function stepWords(seconds: number): string {
  if (seconds === 60) return 'minute';
  if (seconds === 3600) return 'hour';
  return seconds === 86_400 ? 'day' : `${seconds / 3600} hours`;
}

/** The numbers behind the plots as table rows, header first: the total, then calls and errors of each line. */
export function usageNumbers({ whole, lines, stepSeconds }: PlottedUsage): readonly string[][] {
  const head = ['From', 'Calls', 'Errors', 'p50', 'p90', 'p99'];
  const names = lines.flatMap(({ name }) => [name, `${name}, errors`]);
  const rows = whole.points.toReversed().map((point) => {
    const ofLines = lines.flatMap(({ points }) => {
      const own = points.find(({ at }) => at === point.at);
      return [own ? callWords(own.calls) : '–', own ? callWords(own.errors) : '–'];
    });
    return [stepTime(point.at, stepSeconds)].concat(numbersOf(point), ofLines);
  });
  return [[...head, ...names], ...rows];
}

function numbersOf({ calls, errors, p50, p90, p99 }: PlottedCalls & PlottedLatencies): string[] {
  return [callWords(calls), callWords(errors), msWords(p50), msWords(p90), msWords(p99)];
}

function stepTime(at: EpochSeconds, stepSeconds: number): string {
  const text = new Date(at * 1000).toISOString();
  return stepSeconds === 86_400 ? text.slice(0, 10) : text.slice(0, 16).replace('T', ' ');
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A number of calls: exact below ten thousand, as `1,234`, then `12.3K`. */
export function callWords(calls: number): string {
  if (calls >= 10_000) return compact.format(calls);
  return calls < 1000 ? String(calls) : String(calls).replace(/^./, '$&,');
}

/** A latency: `0.8 ms`, `12 ms`, `1.4 s`, as exact as it was measured. */
export function msWords(ms: number | undefined): string {
  if (ms === undefined) return '–';
  if (ms >= 1000) return `${short(ms / 1000)} s`;
  return `${short(ms)} ms`;
}

function short(value: number): string {
  return String(Number(value.toPrecision(2)));
}

/** A part of all calls: `0.4%`. */
export function shareWords(part: number, all: number): string {
  if (all === 0 || part === 0) return '0%';
  const percent = (100 * part) / all;
  return percent < 0.1 ? '< 0.1%' : `${Number(percent.toPrecision(percent < 10 ? 2 : 3))}%`;
}
