import { expect, test } from 'vitest';
import * as fc from 'fast-check';

export type Property = fc.IRawProperty<unknown>;

/** Fails a property. Cheaper than `expect`, which costs more than most of the checks themselves. */
export function ensure(holds: boolean, problem: string): void {
  if (!holds) throw new Error(problem);
}

/** Where a text is cut into chunks, as fractions of its length. */
export const cuts = fc.array(fc.nat(1000), { maxLength: 6 });

/** `bytes` in pieces; some may be empty. */
export function chunked(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = at.map((cut) => Math.round((cut / 1000) * bytes.length)).toSorted((a, b) => a - b);
  return [0, ...places].map((start, index) => bytes.subarray(start, places[index]));
}

/** Tests each property with `runs` inputs, which are the same each time. */
export function testProperties(
  subject: string,
  properties: Record<string, Property>,
  runs: number,
): void {
  test.each(Object.entries(properties))(`${subject}: %s`, async (_, property) => {
    const details = await fc.check(property, { numRuns: runs, seed: 20261123 });

    expect(
      details.failed ? `${String(details.errorInstance)}\n${fc.defaultReportMessage(details)}` : '',
    ).toBe('');
    expect(details.numRuns).toBe(runs);
  });
}
