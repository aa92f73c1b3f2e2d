/** An argument of a tool that a header repeats. */
export interface MirroredParameter {
  readonly path: readonly string[];
  /** In lower case. */
  readonly header: string;
}

const annotation = 'x-mcp-header';
const headerToken = /^[\w!#$%&'*+.^`|~-]+$/;
const repeatable: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/** Keywords whose schemas are for values that a call may or may not hold, at places that no path names. */
const schemasAside: readonly string[] = [
  'additionalProperties',
  'allOf',
  'anyOf',
  'contains',
  'else',
  'if',
  'items',
  'not',
  'oneOf',
  'prefixItems',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
];
/** The same, by names that are free. */
const namedSchemasAside: readonly string[] = [
  '$defs',
  'definitions',
  'dependentSchemas',
  'patternProperties',
];

/**
 * What the annotations of a tool's input schema want repeated in headers; `undefined` where one breaks the rules, as such
 * a tool is not to be offered.
 *
 * MCP 2026-07-28 server tools, `x-mcp-header`
 */
export function mirroredParameters(inputSchema: unknown): MirroredParameter[] | undefined {
  const found = new Map<string, MirroredParameter>();
  return take(inputSchema, [], found) ? [...found.values()] : undefined;
}

/** Takes what is annotated in a schema; where `path` is `undefined` nothing may be. `false` against the rules. */
function take(
  schema: unknown,
  path: readonly string[] | undefined,
  found: Map<string, MirroredParameter>,
): boolean {
  const members = membersOf(schema);
  if (Object.hasOwn(members, annotation)) {
    const name = members[annotation];
    if (!path?.length || typeof name !== 'string' || !headerToken.test(name)) return false;
    const header = `mcp-param-${name.toLowerCase()}`;
    if (found.has(header) || !repeatable.has(members['type'])) return false;
    found.set(header, { path, header });
  }
  const properties = Object.entries(membersOf(members['properties']));
  const aside = [
    ...schemasAside.flatMap((keyword) => members[keyword] ?? []),
    ...namedSchemasAside.flatMap((keyword) => Object.values(membersOf(members[keyword]))),
  ];
  return (
    properties.every(([name, property]) => take(property, path && [...path, name], found)) &&
    aside.every((each) => take(each, undefined, found))
  );
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? Object.fromEntries(Object.entries(value)) : {};
}
