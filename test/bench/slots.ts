import { median } from './measurements.ts';

/** What is read in one slot: processor time in ms or µs, calls or starts per second, megabytes. */
export type Reading = Readonly<Partial<Record<Figure, number>>>;
export type Figure = 'cpu' | 'rate' | 'memory';

/** Takes one slot of about so many seconds. */
export type Slot = (seconds: number) => Promise<Reading>;

/** One line of work that is measured, and what is wished of it. */
export interface Row<Setting> {
  readonly name: string;
  readonly title: string;
  /** The unit of its processor time. */
  readonly unit: 'µs' | 'ms';
  /** A ratio to the floor, or a value where there is no floor. At least for a rate, at most for everything else. */
  readonly aims: Reading;
  /** Ends sooner than `--slots` says, as each slot is long or there is little to learn from more. */
  readonly mostSlots?: number;
  readonly floor?: (setting: Setting) => Promise<Slot>;
  readonly ours: (setting: Setting, build: 'ours' | 'before') => Promise<Slot>;
}

/** The readings of one row, slot by slot. */
export interface Measured {
  readonly row: Pick<Row<never>, 'name' | 'title' | 'unit' | 'aims'>;
  readonly readings: Readonly<Partial<Record<Contender, readonly Reading[]>>>;
}
type Contender = 'floor' | 'ours' | 'before';

/**
 * Takes slots in turn: floor, ours, before, and the next time in the other order, so that neither a machine that gets slower nor the place
 * after another is to anybody's advantage. The slots of one turn are a pair: what else the machine does falls on both.
 */
export async function inSlots<Name extends string>(
  slots: readonly (readonly [Name, Slot])[],
  turns: number,
  seconds: number,
): Promise<Readonly<Partial<Record<Name, readonly Reading[]>>>> {
  const readings: Partial<Record<Name, Reading[]>> = {};
  for (let turn = 0; turn < turns; turn += 1) {
    for (const [name, slot] of turn % 2 === 0 ? slots : slots.toReversed())
      (readings[name] ??= []).push(await slot(seconds));
  }
  return readings;
}

/** The readings of a row and those of further processes. */
export function joined({ row, readings }: Measured, more: Measured['readings']): Measured {
  const both = (name: Contender) => [...(readings[name] ?? []), ...(more[name] ?? [])];
  return { row, readings: { floor: both('floor'), ours: both('ours'), before: both('before') } };
}

const figures: readonly Figure[] = ['cpu', 'rate', 'memory'];
const units = { cpu: '', rate: '1/s', memory: 'MB' };
const names = { cpu: 'processor time', rate: 'rate', memory: 'memory' };

/** A Markdown table: medians, and medians of the ratios of each turn with their quartiles. */
export function tableOf(measured: readonly Measured[]): string {
  const hasBefore = measured.some(({ readings }) => readings.before?.length);
  const head = ['row', 'figure', 'floor', 'ours', 'ours / floor', 'aim'];
  if (hasBefore) head.push('before', 'ours / before');
  const rows = measured.flatMap(({ row, readings }) =>
    figures.flatMap((figure) => {
      const of = (name: Contender) =>
        (readings[name] ?? []).map((reading) => reading[figure] ?? Number.NaN);
      const [floor, ours, before] = [of('floor'), of('ours'), of('before')];
      if (ours.every(Number.isNaN)) return [];
      const ratios = ratiosOf(ours, floor);
      const aim = row.aims[figure];
      const reached = median(floor.length > 0 ? ratios : ours);
      const isMissed = aim !== undefined && (figure === 'rate' ? reached < aim : reached > aim);
      const unit = figure === 'cpu' ? row.unit : units[figure];
      const cells = [
        `${row.title} (\`${row.name}\`)`,
        `${names[figure]}, ${unit}`,
        valueOf(floor),
        valueOf(ours),
        quartilesOf(ratios),
        aim === undefined
          ? '–'
          : `${figure === 'rate' ? '≥' : '≤'} ${aim}${isMissed ? ' **missed**' : ''}`,
      ];
      if (hasBefore) cells.push(valueOf(before), quartilesOf(ratiosOf(ours, before)));
      return [cells];
    }),
  );
  const rule = head.map((_, column) => (column < 2 ? '---' : '--:'));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function ratiosOf(ours: readonly number[], others: readonly number[]): number[] {
  return others.map((other, turn) => (ours[turn] ?? Number.NaN) / other);
}

export function valueOf(values: readonly number[]): string {
  if (values.length === 0) return '–';
  const value = median(values);
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

function quartilesOf(ratios: readonly number[]): string {
  return ratios.length === 0 ? '–' : `×${withQuartiles(ratios, 2)}`;
}

/** The median and, in brackets, the quartiles. */
export function withQuartiles(values: readonly number[], digits: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  const half = Math.ceil(sorted.length / 2);
  const [low, high] = [median(sorted.slice(0, half)), median(sorted.slice(-half))];
  return `${median(values).toFixed(digits)} [${low.toFixed(digits)}–${high.toFixed(digits)}]`;
}
