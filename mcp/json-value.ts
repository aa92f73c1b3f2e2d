/** The members of a parsed JSON object. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** The members of an object; none for any other value. */
export function membersOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** A member of an object; `undefined` if there is none of that name, or the value is not an object. */
export function memberOf(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Parses JSON; `undefined` for any other text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Parses a JSON object; `undefined` for any other text. */
export function parseObject(text: string | undefined): JsonObject | undefined {
  const value = parseJson(text ?? '');
  return isObject(value) ? value : undefined;
}
