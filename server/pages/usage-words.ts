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
