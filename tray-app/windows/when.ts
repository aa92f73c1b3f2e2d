const units: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** A moment as a person says it: `2 minutes ago`, `in 3 hours`. Both in seconds since 1970. */
export function when(at: number, now: number): string {
  const apart = at - now;
  if (Math.abs(apart) < 1) return 'just now';
  const [unit, seconds] = units.find(([, length]) => Math.abs(apart) >= length) ?? ['second', 1];
  const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
  return words.format(Math.trunc(apart / seconds), unit);
}

/** The same moment exactly, for `title` and `datetime`. */
export function exactly(at: number): string {
  return new Date(at * 1000).toISOString();
}
