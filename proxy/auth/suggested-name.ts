/** A name for the server at `url` that is not among those `taken`. */
export function suggestedName(url: string, taken: readonly string[]): string {
  const address = URL.parse(url);
  const [host = 'server'] = (address?.hostname ?? '').split('.');
  const last = (address?.pathname ?? '')
    .split('/')
    .findLast((word) => !['', 'mcp', 'sse'].includes(word));
  const plain = (last ?? host).replaceAll(/[^A-Za-z0-9_-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  const base = plain.slice(0, 50) || 'server';
  for (let count = 1; ; count += 1) {
    const name = count === 1 ? base : `${base}-${count}`;
    if (!taken.includes(name)) return name;
  }
}
