import { printable } from '#log/printable';

/**
 * A text as a cell of CSV. A spreadsheet takes what begins like a formula for one, and so does one in an East Asian
 * language in letters of full width. Control characters are spelled out, for whoever looks at it in a terminal. RFC 4180 §2, OWASP "CSV Injection"
 */
export function csvCell(text: string): string {
  const shown = printable(text);
  const safe = /^\s*[=+\-@＝＋－＠]/u.test(shown) ? `'${shown}` : shown;
  return `"${safe.replaceAll('"', '""')}"`;
}
