import type { EpochSeconds } from '#model/clock';
import { printable } from 'latchkey-mcp/safe-text';

/** Writes one line to stdout. */
export type Out = (line: string) => void;

/** A value to print. */
export type Cell = string | number | boolean | null | readonly string[];

/** Prints rows as one JSON document, or as a table for people. */
export function printRows(
  rows: readonly Record<string, Cell>[],
  { json, empty, out }: { json: boolean; empty: string; out: Out },
): void {
  if (json) return printJson(rows, out);
  const [first] = rows;
  if (!first) return out(empty);
  const columns = Object.keys(first);
  const lines = rows.map((row) => columns.map((column) => cellText(column, row[column] ?? null)));
  const widths = columns.map((column, index) =>
    Math.max(column.length, ...lines.map((line) => line[index]?.length ?? 0)),
  );
  for (const line of [columns, ...lines]) {
    out(
      line
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

/** Prints JSON line by line, because `out` escapes line breaks. */
function printJson(value: unknown, out: Out): void {
  JSON.stringify(value, null, 2).split('\n').forEach(out);
}

function cellText(column: string, cell: Cell): string {
  if (cell === null) return '-';
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  if (typeof cell === 'number') return column.endsWith('_at') ? timeText(cell) : String(cell);
  return printable(typeof cell === 'string' ? cell : cell.join(' '));
}

function timeText(at: EpochSeconds): string {
  return new Date(at * 1000).toISOString().replace('.000Z', 'Z');
}

/** Prints a created resource: as JSON, or as one line per field. A secret is printed with a note that it is displayed only once. */
export function printMade(
  facts: Record<string, Cell>,
  { json, secret, out }: { json: boolean; secret?: string; out: Out },
): void {
  if (json) return printJson(facts, out);
  const width = Math.max(...Object.keys(facts).map((name) => name.length));
  for (const [name, value] of Object.entries(facts)) {
    out(`${name.padEnd(width)}  ${cellText(name, value)}`);
  }
  if (secret !== undefined) out(`hint: store the ${secret} now; it is not shown again`);
}

/** Whom a planned change affects: a list in JSON, or one text with separators. */
export function affectedCell(lines: readonly string[], { json }: { json: boolean }): Cell {
  if (json) return lines;
  return lines.length === 0 ? 'nobody' : lines.join('; ');
}
