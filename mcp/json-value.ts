/** The members of an object that was JSON. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** The members of an object; none of any other value. */
export function membersOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** A member of an object; `undefined` if it has none of that name, or is no object. */
export function memberOf(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** The object that `text` is in JSON; `undefined` for anything else. */
export function parseObject(text: string | undefined): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '');
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
