import type { EpochSeconds } from '#clock/clock';
import { callWords, msWords } from './usage-words.ts';
import { linePlot, plotTimes, type PlotLine } from './line-plot.ts';

/** Calls of one step, or of all of them. */
export interface PlottedCalls {
  readonly calls: number;
  readonly errors: number;
}

/** How long they took, in ms. */
export interface PlottedLatencies {
  readonly p50: number | undefined;
  readonly p90: number | undefined;
  readonly p99: number | undefined;
}

type Point<Values> = Values & { readonly at: EpochSeconds };

/** Calls over time, by the name they go by. */
export interface PlottedLine {
  readonly name: string;
  readonly total: PlottedCalls;
  readonly points: readonly Point<PlottedCalls>[];
}

export interface PlottedUsage {
  readonly from: EpochSeconds;
  readonly until: EpochSeconds;
  readonly stepSeconds: number;
  /** What the latencies are of, and what stands where there are no lines. */
  readonly whole: {
    readonly name: string;
    readonly total: PlottedCalls & PlottedLatencies;
    readonly points: readonly Point<PlottedCalls & PlottedLatencies>[];
  };
  readonly lines: readonly PlottedLine[];
}

/** The plots of usage, ready for a template: calls, errors, and how long calls took. */
export function usagePlots(usage: PlottedUsage): readonly string[] {
  const { whole } = usage;
  const latencies = ['p50', 'p90', 'p99'] as const;
  const at = ground(usage);
  const latencyPlot = linePlot({
    ...at,
    title: 'How long calls took',
    summary: `How long calls took: ${latencies.map((name) => `${name} ${msWords(whole.total[name])}`).join(', ')}`,
    lines: latencies.map((name) => lineOf(name, whole.points, (point) => point[name])),
    format: msWords,
  });
  return [...callPlots(usage, at), latencyPlot];
}

/** Of them those of calls and errors. */
export function callPlots(usage: PlottedUsage, at = ground(usage)): readonly string[] {
  const { whole, lines, stepSeconds } = usage;
  const shown = lines.length > 0 ? lines : [whole];
  const step = stepWords(stepSeconds);
  const counts = (title: string, of: (point: PlottedCalls) => number) =>
    linePlot({
      ...at,
      title: `${title} per ${step}`,
      summary: `${title} per ${step}: ${shown.map((one) => `${one.name} ${callWords(of(one.total))}`).join(', ')}`,
      lines: shown.map((one) => lineOf(one.name, one.points, of)),
      format: (value) => (Number.isInteger(value) ? callWords(value) : ''),
    });
  return [counts('Calls', ({ calls }) => calls), counts('Errors', ({ errors }) => errors)];
}

/** What all plots of a page stand on. */
function ground({ from, until, stepSeconds }: PlottedUsage) {
  return { from, until, stepSeconds, times: plotTimes(from, until) };
}

function lineOf<Values>(
  label: string,
  points: readonly Point<Values>[],
  of: (point: Values) => number | undefined,
): PlotLine {
  const values = new Map<EpochSeconds, number>();
  for (const point of points) {
    const value = of(point);
    if (value !== undefined) values.set(point.at, value);
  }
  return { label, values };
}

function stepWords(seconds: number): string {
  if (seconds === 60) return 'minute';
  if (seconds === 3600) return 'hour';
  return seconds === 86_400 ? 'day' : `${seconds / 3600} hours`;
}
