/** An event id is UTF-8 text, and a header takes the bytes of that. */
export function headerBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
