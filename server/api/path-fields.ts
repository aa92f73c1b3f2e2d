/** The names of the fields that a path holds in braces: `organization` of `/organizations/{organization}`. */
export function fieldsInPath(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}

/** A path with its braces filled from `values`, each percent-encoded. */
export function filledPath(path: string, values: Readonly<Record<string, unknown>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    return encodeURIComponent(typeof value === 'string' ? value : '');
  });
}
