/** Quotes `text` as one word for a POSIX shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** `text` as one word of a command that people read, in quotes only where a shell needs them. */
export function plainWord(text: string): string {
  return /^[\w@+:,./-]+$/.test(text) ? text : shellWord(text);
}
