/** One row of a table. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly digits: number;
}

/** The values measured in all rounds, and a Markdown table of them. */
export class Measurements {
  readonly #values = new Map<Figure, Map<string, number[]>>();

  add(figure: Figure, contender: string, value: number): void {
    const contenders = this.#values.get(figure) ?? new Map<string, number[]>();
    this.#values.set(figure, contenders);
    contenders.set(contender, [...(contenders.get(contender) ?? []), value]);
  }

  /** Medians with the least and the greatest value. After × follows the ratio to the first contender, the floor. */
  markdown(figures: readonly Figure[], contenders: readonly string[]): string {
    const rows = figures.map((figure) => {
      const { name, unit, digits } = figure;
      const measured = this.#values.get(figure);
      const cells = contenders.map((contender) => {
        const values = measured?.get(contender);
        if (!values) return '–';
        const floor = measured?.get(contenders[0] ?? '') ?? values;
        const ratio = median(values) / median(floor);
        const [middle, least, most] = [
          median(values),
          Math.min(...values),
          Math.max(...values),
        ].map((value) => value.toFixed(digits));
        const range = least === most ? '' : ` (${least}–${most})`;
        return `${middle}${range}${floor === values ? '' : ` ×${ratio.toFixed(2)}`}`;
      });
      return [unit ? `${name}, ${unit}` : name, ...cells];
    });
    const head = ['figure', ...contenders];
    const rule = head.map((_, column) => (column === 0 ? '---' : '--:'));
    return [head, rule, ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? upper) + upper) / 2 : upper;
}

/** Measures A B C A B C …, so that other work of the machine affects all contenders alike. */
export async function interleaved<T>(
  rounds: number,
  contenders: readonly T[],
  measure: (contender: T, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const contender of contenders) await measure(contender, round);
  }
}
