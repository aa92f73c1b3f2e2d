declare global {
  /** ECMAScript 2026, which TypeScript's library lacks. https://tc39.es/proposal-json-parse-with-source/ */
  interface JSON {
    isRawJSON(value: unknown): boolean;
    rawJSON(text: string): object;
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source: string }) => unknown,
    ): unknown;
  }
}

/**
 * A JSON value whose numbers keep their digits, also in `JSON.stringify`, because JavaScript's own numbers cannot distinguish
 * integers beyond 2^53 from their neighbours.
 *
 * @throws {SyntaxError}
 */
export function exactJson(text: string): unknown {
  return JSON.parse(text, (_, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value,
  );
}
