const mostNamed = 5;

/** `desk`, `desk and front`, `a, b, c, d, e and 3 more`: for messages, which name a few and count the others. */
export function fewNames(names: readonly string[]): string {
  const more = names.length > mostNamed ? [`${names.length - mostNamed} more`] : [];
  return new Intl.ListFormat('en-GB').format([...names.slice(0, mostNamed), ...more]);
}
