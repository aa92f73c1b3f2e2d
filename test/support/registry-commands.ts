/** Commands that fetch a package from a registry if it is not installed. */
const runners =
  /\b(npx|bunx|pnpx|npm (?:exec|x|install|i|add)|(?:pnpm|yarn|bun) (?:dlx|add|x))((?: (?:args|:|--?[\w=-]*))*) (latchkey(?:-server)?(?:@[\w.^~-]+)?)(?![\w/.-])/g;

/**
 * The commands in `text` that would run or install a Latchkey package from a registry, where Latchkey does not own the name. It
 * reads shell commands, configurations as JSON, HTML and code alike. `npx --no` runs only installed packages.
 */
export function registryCommands(text: string): string[] {
  const plain = text
    .replaceAll(/&quot;|&#3[49];|&#x2[27];|[\\"'`[\],]/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(':', ' : ')
    .replaceAll(/\s+/g, ' ');
  return [...plain.matchAll(runners)]
    .filter(([, , flags = '']) => !/ --no(?= |$)/.test(flags))
    .map(([command]) => command);
}
