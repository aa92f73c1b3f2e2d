/** Sizes as people type and read them: `4 MB`, `500 kB`, `1000 bytes`. A megabyte is 1024 kilobytes of 1024 bytes. */
const units = { MB: 1024 ** 2, kB: 1024, bytes: 1 } as const;
export type ByteUnit = keyof typeof units;

const spellings: Readonly<Record<string, ByteUnit>> = {
  mb: 'MB',
  mib: 'MB',
  m: 'MB',
  kb: 'kB',
  kib: 'kB',
  k: 'kB',
  b: 'bytes',
  byte: 'bytes',
  bytes: 'bytes',
};

/** The bytes of a size. A number without a unit is in `unit`. NaN if it is no size or no whole number of bytes. */
export function bytesOfSize(text: string, unit: ByteUnit): number {
  const [, number, letters = ''] =
    /^(\d{1,12}(?:[.,]\d{1,20})?)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  const given = letters === '' ? unit : spellings[letters.toLowerCase()];
  if (number === undefined || given === undefined) return Number.NaN;
  const bytes = Number(number.replace(',', '.')) * units[given];
  return Number.isInteger(bytes) ? bytes : Number.NaN;
}

/** A size in the largest unit that needs at most three decimals. */
export function sizeOfBytes(bytes: number): string {
  const [unit, length] = unitOf(bytes);
  return `${bytes / length} ${unit}`;
}

/** A size as a form shows it in a field for `unit`: without a unit if the number in `unit` needs at most three decimals. */
export function typedSize(bytes: number, unit: ByteUnit): string {
  const isShort = Number.isInteger((bytes / units[unit]) * 1000);
  return isShort ? String(bytes / units[unit]) : sizeOfBytes(bytes);
}

function unitOf(bytes: number): readonly [string, number] {
  if (bytes >= units.MB && Number.isInteger((bytes / units.MB) * 1000)) return ['MB', units.MB];
  if (bytes >= units.kB && Number.isInteger((bytes / units.kB) * 1000)) return ['kB', units.kB];
  return ['bytes', 1];
}
