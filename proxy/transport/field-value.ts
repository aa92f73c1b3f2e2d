/**
 * `text` as the value of a header field. What cannot stand there as it is, or would be read as encoded,
 * is sent in base64.
 *
 * MCP 2026-07-28 transports, value encoding
 */
export function fieldValue(text: string): string {
  const plain = /^[\x20-\x7e\t]+$/.test(text) && text === text.trim();
  if (plain && !(text.startsWith('=?base64?') && text.endsWith('?='))) return text;
  return `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
