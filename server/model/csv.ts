export interface CsvRecord {
  /** The line that it begins in, counted from 1. */
  readonly line: number;
  /** Without the spaces around them. */
  readonly cells: readonly string[];
}

/** The characters that separate cells, in the order in which they are looked for. */
const separators = ['\t', ',', ';'] as const;

/** The character that separates cells in the first line: spreadsheets write semicolons where the decimal separator is a comma. */
export function csvSeparator(text: string): string {
  const [first = ''] = text.replaceAll(/"(?:[^"]|"")*"/g, '').split(/\r?\n|\r/, 1);
  return separators.find((one) => first.includes(one)) ?? ',';
}

/**
 * Reads CSV: quoted cells may contain separators, line breaks, and quotation marks, which are doubled. Empty lines are skipped. `open` is
 * the line of a quotation mark that is never closed.
 *
 * RFC 4180 §2
 */
export function readCsv(
  text: string,
  separator = csvSeparator(text),
): { readonly records: readonly CsvRecord[]; readonly open: number | undefined } {
  const records: CsvRecord[] = [];
  const source = text.replace(/^\ufeff/, '').replaceAll(/\r\n?/g, '\n');
  let line = 1;
  let begun = 1;
  let cells: string[] = [];
  let cell = '';
  // Searching the growing cell after each character would take quadratic time.
  let isBlank = true;
  let quotedAt: number | undefined;
  let wasQuoted = false;
  const add = (character: string) => {
    cell += character;
    isBlank &&= character.trim() === '';
  };
  const emptyCell = () => {
    cell = '';
    isBlank = true;
  };
  const endCell = () => {
    cells.push(wasQuoted ? cell : cell.trim());
    emptyCell();
    wasQuoted = false;
  };
  const endRecord = () => {
    endCell();
    if (cells.some((one) => one !== '')) records.push({ line: begun, cells });
    cells = [];
    begun = line;
  };
  for (let at = 0; at < source.length; at += 1) {
    const character = source[at] ?? '';
    if (character === '\n') line += 1;
    if (quotedAt !== undefined) {
      if (character !== '"') add(character);
      else if (source[at + 1] === '"') {
        add(character);
        at += 1;
      } else quotedAt = undefined;
    } else if (character === '"' && isBlank) {
      emptyCell();
      quotedAt = line;
      wasQuoted = true;
    } else if (character === separator) endCell();
    else if (character === '\n') endRecord();
    else if (!wasQuoted || character.trim() !== '') add(character);
  }
  endRecord();
  return { records, open: quotedAt };
}
