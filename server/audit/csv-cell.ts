/**
 * A text as a cell of CSV. A spreadsheet takes what begins like a formula for one, and so does one in an East Asian
 * language in letters of full width. RFC 4180 §2, OWASP "CSV Injection"
 */
export function csvCell(text: string): string {
  const safe = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/u.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}
