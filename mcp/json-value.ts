/** The members of an object that was JSON. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members of an object; none of any other value. */
export function membersOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** A member of an object; `undefined` if it has none of that name, or is no object. */
export function memberOf(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}
