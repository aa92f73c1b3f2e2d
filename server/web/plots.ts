import { scaleLinear, scaleUtc } from 'd3-scale';
import type { EpochSeconds } from '#model/clock';
import { html, type Html } from './html.ts';
import { localTime, svgTime, timeIn } from './times.ts';

/** A time axis from `from` (inclusive) to `until` (exclusive). The last step is the current one and has not ended yet. */
interface TimeAxis {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
}

/** The bars of one step in a plot, and their values in words. */
interface PlottedStep {
  /** The values of its bars, which overlap: the highest first. Empty if nothing was measured. */
  readonly values: readonly number[];
  /** The values in words. */
  readonly words: string;
}

interface BarPlot<Point extends { readonly at: EpochSeconds }> extends TimeAxis {
  readonly title: string;
  /** What the plot shows, for screen readers. */
  readonly summary: string;
  readonly points: readonly Point[];
  /** Returns the values and text of a step; `point` is `undefined` if the step has none. */
  readonly step: (point: Point | undefined) => PlottedStep;
  /** The names of the bars of a step, if it has several. */
  readonly names?: readonly string[];
  /** Their classes in the style sheet; `part-1` and so on unless given. */
  readonly classes?: readonly string[];
  /** A value as the axis shows it; '' for one that it leaves out. */
  readonly format: (value: number) => string;
  /** The page behind the bar of the step that begins at this time. */
  readonly href?: ((at: EpochSeconds) => string) | undefined;
}

const height = 188;
/** The height of the line above the bars, which shows the values of one step. */
const readoutHeight = 20;
const [top, bottom] = [readoutHeight + 8, height - 24];

/**
 * A plot over time as a figure, with a bar for each step. Hovering over a step, or moving the focus to it, shows its
 * values above; our script moves the focus with the arrow keys. The SVG uses attributes alone, because the content
 * security policy allows no inline styles. Positions are in percent, so that only the bars stretch with the window.
 */
export function barPlot<Point extends { readonly at: EpochSeconds }>(plot: BarPlot<Point>): Html {
  const { title, summary, from, until, stepSeconds, points, step, names, format, href } = plot;
  const classOf = (part: number) => plot.classes?.[part] ?? `part-${part + 1}`;
  const found = new Map(points.map((point) => [point.at, point]));
  const count = Math.round((until - from) / stepSeconds);
  const steps = Array.from({ length: count }, (_, index) => {
    const at = from + index * stepSeconds;
    return { at, ...step(found.get(at)) };
  });
  const most = Math.max(1, ...steps.flatMap(({ values }) => values));
  const y = scaleLinear([0, most], [bottom, top]).nice(3);
  const ticks = y.ticks(3).filter((tick) => format(tick) !== '');
  const width = 100 / count;
  const bars = steps.map(({ at, values, words }, index) => {
    const isCurrent = index === count - 1;
    const span = spanOf(at, plot);
    const soFar = isCurrent ? ', until now' : '';
    const rects = values.map((value, part) => {
      const barHeight = Math.max(bottom - y(value), value > 0 ? 2 : 1);
      if (value === 0 && part > 0) return undefined;
      const className = value === 0 ? 'zero' : classOf(part);
      return html`<rect class="${className}" x="${round(index * width + width * 0.12)}%" width="${round(width * 0.76)}%" y="${round(bottom - barHeight)}" height="${round(barHeight)}"/>`;
    });
    const target = values.some((value) => value > 0) ? href?.(at) : undefined;
    const attributes = html`class="bar${isCurrent && ' current'}"${!target && html` role="img"`} tabindex="${isCurrent ? 0 : -1}" aria-label="${span.text}${soFar}: ${words}"`;
    const content = html`<rect class="slot" x="${round(index * width)}%" width="${round(width)}%" y="${top - 4}" height="${bottom - top + 4}"/>
${rects}
<text class="readout" x="100%" y="12" text-anchor="end">${span.svg}${soFar}: ${words}</text>`;
    return target === undefined
      ? html`<g ${attributes}>
${content}
</g>`
      : html`<a ${attributes} href="${target}">
${content}
</a>`;
  });
  return html`<figure class="plot">
<figcaption>${title}${names && plotKey(names, classOf)}</figcaption>
<div class="plot-frame">
<svg class="plot-values" height="${height}" aria-hidden="true">${ticks.map((tick) => label('100%', y(tick) + 4, format(tick), 'end'))}</svg>
<svg class="plot-area" height="${height}" role="group" aria-label="${summary}">
<g class="plot-grid">${ticks.map((tick) => html`<line x1="0" x2="100%" y1="${round(y(tick))}" y2="${round(y(tick))}"/>`)}</g>
${bars}
<g aria-hidden="true">${axisLabels(plot)}${label('100%', height - 6, 'now', 'end', 'current')}</g>
</svg>
</div>
</figure>`;
}

/** The legend of a plot that has several bars for each step. */
function plotKey(names: readonly string[], classOf: (part: number) => string): Html {
  const square = (part: number) =>
    html`<svg width="10" height="10" aria-hidden="true"><rect class="${classOf(part)}" width="10" height="10"/></svg>`;
  return html` <span class="plot-key">${names.map((name, index) => html`<span>${square(index)} ${name}</span>`)}</span>`;
}

/** The time span of a step. Days are always UTC days, because calls are counted that way. */
function spanOf(at: EpochSeconds, { from, until, stepSeconds }: TimeAxis) {
  if (stepSeconds >= daySeconds) return { text: timeIn('day', at), svg: timeIn('day', at) };
  const form = until - from > daySeconds ? 'moment' : 'clock';
  const end = at + stepSeconds;
  if (stepSeconds <= 60) return { text: timeIn(form, at), svg: svgTime(form, at) };
  return {
    text: `${timeIn(form, at)}–${timeIn('clock', end)}`,
    svg: html`${svgTime(form, at)}–${svgTime('clock', end)}`,
  };
}

const daySeconds = 86_400;

/** The times under a plot, without those that would overlap the label of the current step. */
function axisLabels({ from, until, stepSeconds }: TimeAxis): readonly Html[] {
  const x = scaleUtc([new Date(from * 1000), new Date(until * 1000)], [0, 100]);
  const isDays = until - from > 2 * daySeconds;
  return x
    .ticks(4)
    .filter((tick) => x(tick) >= 4 && x(tick) <= 84)
    .map((tick) => {
      const at = tick.getTime() / 1000;
      if (stepSeconds >= daySeconds) {
        return label(`${round(x(tick))}%`, height - 6, timeIn('day', at), 'middle');
      }
      const words = svgTime(isDays ? 'day' : 'clock', at);
      return label(`${round(x(tick))}%`, height - 6, words, 'middle');
    });
}

function label(x: string, y: number, words: string | Html, anchor: string, name?: string): Html {
  return html`<text x="${x}" y="${round(y)}" text-anchor="${anchor}"${name && html` class="${name}"`}>${words}</text>`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The calls in one step, or in all steps. */
interface PlottedCalls {
  readonly calls: number;
  readonly errors: number;
}

/** How long the calls took, in ms. */
interface PlottedLatencies {
  readonly p50: number | undefined;
  readonly p90: number | undefined;
  readonly p99: number | undefined;
}

type UsagePoint = PlottedCalls & PlottedLatencies & { readonly at: EpochSeconds };

/** Calls over time. Steps without calls may be missing. */
export interface PlottedUsage extends TimeAxis {
  readonly total: PlottedCalls & PlottedLatencies;
  readonly points: readonly UsagePoint[];
}

/** Returns a link to the calls of a step, or only to its errors. */
export type CallsHref = (at: EpochSeconds, of: 'calls' | 'errors') => string;

/** The plots of usage: calls, errors, and how long calls took. */
export function usagePlots(usage: PlottedUsage, hrefOf: CallsHref): readonly Html[] {
  const { total } = usage;
  const latencyPlot = barPlot({
    ...usage,
    title: 'Response time',
    summary: `Response time: ${latencyWords(total)}`,
    names: ['p99', 'p90', 'median'],
    step(point) {
      const values = [point?.p99, point?.p90, point?.p50].filter((ms) => ms !== undefined);
      return { values, words: values.length > 0 && point ? latencyWords(point) : 'no calls' };
    },
    format: msWords,
    href: (at) => hrefOf(at, 'calls'),
  });
  return [...callPlots(usage, hrefOf), latencyPlot];
}

/** Only the plot of calls, with the errors as a part of each bar. */
export function callPlots(usage: PlottedUsage, hrefOf: CallsHref): readonly Html[] {
  const { total, stepSeconds } = usage;
  const words = ({ calls, errors }: PlottedCalls) =>
    `${countWords(calls, 'call', 'calls')}${errors === 0 ? '' : `, ${countWords(errors, 'error', 'errors')}`}`;
  return [
    barPlot({
      ...usage,
      title: `Calls per ${stepWords(stepSeconds)}`,
      summary: `Calls per ${stepWords(stepSeconds)}: ${words(total)} in total`,
      names: ['calls', 'errors'],
      classes: ['part-1', 'errors'],
      step: (point = { at: 0, ...none }) => ({
        values: [point.calls, point.errors],
        words: words(point),
      }),
      format: (value) => (Number.isInteger(value) ? callWords(value) : ''),
      href: (at) => hrefOf(at, 'calls'),
    }),
  ];
}

const none = { calls: 0, errors: 0, p50: undefined, p90: undefined, p99: undefined };

function countWords(count: number, one: string, many: string): string {
  return `${callWords(count)} ${count === 1 ? one : many}`;
}

function latencyWords({ p50, p90, p99 }: PlottedLatencies): string {
  return `median ${msWords(p50)}, p90 ${msWords(p90)}, p99 ${msWords(p99)}`;
}

function stepWords(seconds: number): string {
  if (seconds === 60) return 'minute';
  if (seconds === 3600) return 'hour';
  return seconds === daySeconds ? 'day' : `${seconds / 3600} hours`;
}

/** The numbers behind the plots, in a table that opens below them: the newest step first. Steps without calls may be missing. */
export function usageNumbers({ points, stepSeconds }: PlottedUsage, hrefOf: CallsHref): Html {
  const form = stepSeconds >= daySeconds ? 'day' : 'moment';
  const isTimed = points.some(({ p50 }) => p50 !== undefined);
  const columns = ['From', 'Calls', 'Errors', ...(isTimed ? ['Median', 'p90', 'p99'] : [])];
  // Steps without calls are left out.
  const busy = points.filter(({ calls }) => calls > 0);
  const rows = busy.toReversed().map(({ at, calls, errors, p50, p90, p99 }) => {
    const latencies = isTimed ? [p50, p90, p99].map(msWords) : [];
    const linked = (count: number, of: 'calls' | 'errors') =>
      count === 0 ? '0' : html`<a href="${hrefOf(at, of)}">${callWords(count)}</a>`;
    const values = [linked(calls, 'calls'), linked(errors, 'errors'), ...latencies];
    return html`<tr>
<th scope="row">${form === 'day' ? timeIn('day', at) : localTime(form, at)}</th>
${values.map((value) => html`<td>${value}</td>`)}
</tr>`;
  });
  return html`<details>
<summary>Show as table</summary>
<div class="numbers" tabindex="0" role="region" aria-label="Numbers over time">
<table>
<caption class="unseen">Numbers over time</caption>
<thead>
<tr>
${columns.map((text) => html`<th scope="col">${text}</th>`)}
</tr>
</thead>
<tbody>
${rows}
</tbody>
</table>
</div>
</details>`;
}

let compact: Intl.NumberFormat | undefined;

/** A number of calls: exact below ten thousand, as `1,234`, then `12.3K`. */
export function callWords(calls: number): string {
  if (calls < 10_000) return calls < 1000 ? String(calls) : String(calls).replace(/^./, '$&,');
  compact ??= new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
  return compact.format(calls);
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

/** A share of all calls: `0.4%`. */
export function shareWords(part: number, all: number): string {
  if (all === 0 || part === 0) return '0%';
  const percent = (100 * part) / all;
  return percent < 0.1 ? '< 0.1%' : `${Number(percent.toPrecision(percent < 10 ? 2 : 3))}%`;
}
