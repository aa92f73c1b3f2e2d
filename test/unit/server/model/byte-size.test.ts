import { expect, test } from 'vitest';
import { bytesOfSize, sizeOfBytes, typedSize } from '#server/model/byte-size';

test.for([
  ['4', 'MB', 4_194_304],
  ['0.5', 'MB', 524_288],
  ['0,5 MB', 'MB', 524_288],
  ['500 kB', 'MB', 512_000],
  ['500k', 'bytes', 512_000],
  ['1024 bytes', 'MB', 1024],
  ['4MiB', 'bytes', 4_194_304],
  ['16', 'kB', 16_384],
  ['65536', 'bytes', 65_536],
] as const)('size: %s, in %s unless it says so, is %d bytes', ([text, unit, bytes]) => {
  expect(bytesOfSize(text, unit)).toBe(bytes);
});

test.for(['', 'many', '-1', '1e6', '4 GB', '1.5 bytes', '0x10', '4 MB 2', 'Infinity'])(
  'size: %o is none',
  (text) => {
    expect(bytesOfSize(text, 'MB')).toBeNaN();
  },
);

test.for([
  [4_194_304, '4 MB', '4'],
  [1_572_864, '1.5 MB', '1.5'],
  [512_000, '500 kB', '500 kB'],
  [1000, '1000 bytes', '1000 bytes'],
  [1024, '1 kB', '1 kB'],
  [1_073_741_824, '1024 MB', '1024'],
] as const)('size: %d bytes are %s, and %s in a field for MB', ([bytes, size, typed]) => {
  expect(sizeOfBytes(bytes)).toBe(size);
  expect(typedSize(bytes, 'MB')).toBe(typed);
  expect(bytesOfSize(typed, 'MB')).toBe(bytes);
});
