import type { EpochSeconds } from '#clock/clock';
import type { PlottedCalls, PlottedLatencies, PlottedUsage } from './usage-plots.ts';
import { callWords, msWords } from './usage-words.ts';

/** The rows of the table of numbers, its head first: the whole, then calls and errors of each line. */
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
