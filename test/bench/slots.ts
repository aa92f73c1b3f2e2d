import { median } from './measurements.ts';

/** The readings of one slot: processor time in ms or µs, calls or starts per second, megabytes. */
export type Reading = Readonly<Partial<Record<Figure, number>>>;
export type Figure = 'cpu' | 'rate' | 'memory';

/** Takes one slot of about so many seconds. */
export type Slot = (seconds: number) => Promise<Reading>;

/** A kind of work that is measured, and the aims for it. */
export interface Row<Setting> {
  readonly name: string;
  readonly title: string;
  /** The unit of its processor time. */
  readonly unit: 'µs' | 'ms';
  /** Ratios to the floor, or values where there is no floor: the minimum for a rate, the maximum for everything else. */
  readonly aims: Reading;
  /** Limits `--slots` for this row, because each slot is long or more slots would show little. */
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
 * Takes slots in turn: floor, ours, before, and in the next turn in reverse, so that neither a machine that gets slower nor the order
 * favours a contender. The slots of one turn belong together: other work of the machine affects them alike.
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

/** Adds the readings of further processes to those of a row. */
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
