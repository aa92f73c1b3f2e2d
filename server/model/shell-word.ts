/** A name as a word of a command that people copy into a shell: names of tools and groups can contain anything. */
export function shellWord(name: string): string {
  return /^[\w@+:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", String.raw`'\''`)}'`;
}
