/**
 * JSON in which a person may have left comments and trailing commas, as VS Code allows.
 *
 * @throws {SyntaxError}
 */
export function parseJsonc(text: string): unknown {
  const bare = text
    .replace(/^\u{FEFF}/u, '')
    .replace(
      /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
      (_, string?: string) => string ?? ' ',
    )
    .replace(/("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g, (_, string?: string) => string ?? '');
  return JSON.parse(bare);
}
