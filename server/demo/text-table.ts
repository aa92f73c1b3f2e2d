/** Rows as a Markdown table, as people and models read it. */
export function textTable(
  columns: readonly string[],
  rows: readonly (readonly (string | number | boolean | null)[])[],
): string {
  const line = (cells: readonly (string | number | boolean | null)[]) =>
    `| ${cells.map((cell) => cellText(cell)).join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n');
}

function cellText(cell: string | number | boolean | null): string {
  return String(cell ?? 'null')
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|')
    .replaceAll(/\r?\n/g, '\\n');
}
