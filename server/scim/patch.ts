import { isObject } from 'latchkey-mcp/json-value';
import { parsePath, type Filter, type PatchPath, valueMatches } from './filter.ts';
import { attributeOf, type Attribute, type ResourceKind, subAttributeOf } from './schemas.ts';
import { badRequest } from './scim-error.ts';

/*
 * PATCH as directories really send it: RFC 7644 §3.5.2, both dialects of Microsoft Entra, and Okta's. Operations may be capitalised, may have
 * paths as the keys of their value, and may list the members to remove. Operations on attributes that are not stored are ignored.
 */

const mostOperations = 1000;
/** The most values of a multi-valued attribute, also between operations, because values are compared with each other. */
const mostValues = 100;

type Members = Readonly<Record<string, unknown>>;

/** An operation on one attribute. */
export interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace';
  readonly path: PatchPath;
  readonly attribute: Attribute;
  readonly value: unknown;
}

/**
 * The operations of a PATCH request on attributes that are stored and can be changed. An operation without a path becomes one for each
 * key of its value.
 *
 * @throws {ScimError} 400
 */
export function readOperations(body: Members, kind: ResourceKind): readonly PatchOperation[] {
  const given = memberOf(body, 'operations');
  if (!Array.isArray(given) || given.length === 0) {
    throw badRequest('invalidSyntax', 'Operations must be a list with at least one operation');
  }
  if (given.length > mostOperations) {
    throw badRequest('tooMany', `at most ${mostOperations} operations are allowed`);
  }
  const operations = given.flatMap((operation: unknown) => readOperation(operation, kind));
  // Without a path, each key of the value counts as an operation.
  if (operations.length > mostOperations) {
    throw badRequest('tooMany', `at most ${mostOperations} attributes can be changed at once`);
  }
  return operations;
}

function readOperation(given: unknown, kind: ResourceKind): readonly PatchOperation[] {
  if (!isObject(given)) throw badRequest('invalidSyntax', 'an operation must be an object');
  const name = memberOf(given, 'op');
  const op = typeof name === 'string' ? name.toLowerCase() : undefined;
  if (op !== 'add' && op !== 'remove' && op !== 'replace') {
    throw badRequest('invalidSyntax', 'op must be add, remove or replace');
  }
  const path = memberOf(given, 'path');
  const value = memberOf(given, 'value');
  if (op !== 'remove' && value === undefined) throw badRequest('invalidValue', 'value is missing');
  if (path !== undefined && path !== null && path !== '') {
    if (typeof path !== 'string') throw badRequest('invalidPath', 'path must be a string');
    return operationAt(op, parsePath(path), value, kind, { isNamed: true });
  }
  if (op === 'remove') throw badRequest('noTarget', 'an operation that removes needs a path');
  if (!isObject(value)) throw badRequest('invalidValue', 'without a path, value must be an object');
  return Object.entries(value).flatMap(([key, one]) =>
    operationAt(op, parsePath(key), one, kind, { isNamed: false }),
  );
}

function operationAt(
  op: PatchOperation['op'],
  path: PatchPath,
  value: unknown,
  kind: ResourceKind,
  { isNamed }: { isNamed: boolean },
): readonly PatchOperation[] {
  const attribute = attributeOf(kind, path.attribute);
  if (!attribute) return [];
  if (attribute.mutability === 'readOnly') {
    // Okta repeats the id in a value without a path.
    if (isNamed) throw badRequest('mutability', `${attribute.name} cannot be changed`);
    return [];
  }
  if (path.sub !== undefined && !subAttributeOf(attribute, path.sub)) return [];
  if (path.filter && !attribute.multiValued) {
    throw badRequest('invalidPath', `${attribute.name} has only one value`);
  }
  return [{ op, path, attribute, value }];
}

/** The member with this name, in any letter case. */
export function memberOf(members: Members, name: string): unknown {
  if (Object.hasOwn(members, name)) return members[name];
  const found = Object.keys(members).find((key) => key.toLowerCase() === name.toLowerCase());
  return found === undefined ? undefined : members[found];
}

/** Applies operations to a resource whose attributes are named as in its schema. @throws {ScimError} 400 */
export function applyOperations(
  resource: Members,
  operations: readonly PatchOperation[],
): Record<string, unknown> {
  const changed: Record<string, unknown> = { ...resource };
  for (const operation of operations) {
    const { attribute } = operation;
    const present = changed[attribute.name];
    const next = attribute.multiValued
      ? limited(
          changedList(Array.isArray(present) ? present.filter(isObject) : [], operation),
          attribute,
        )
      : changedValue(present, operation);
    if (next === undefined) delete changed[attribute.name];
    else changed[attribute.name] = next;
  }
  return changed;
}

function changedValue(present: unknown, { op, path, attribute, value }: PatchOperation): unknown {
  if (!attribute.subAttributes) return op === 'remove' ? undefined : (value ?? undefined);
  const parts = isObject(present) ? present : {};
  if (path.sub !== undefined) {
    return withParts(parts, attribute, { [path.sub]: op === 'remove' ? null : value });
  }
  if (op === 'remove' || value === null) return undefined;
  if (!isObject(value)) throw badRequest('invalidValue', `${attribute.name} must be an object`);
  return withParts(parts, attribute, value);
}

/** The sent parts that Latchkey stores. They are looked up once, however many values receive them. */
function knownParts(parts: Members, attribute: Attribute): Members {
  const known = Object.entries(parts).flatMap(([name, value]) => {
    const part = subAttributeOf(attribute, name);
    return part ? [[part.name, value] as const] : [];
  });
  return Object.fromEntries(known);
}

/** A complex value with some parts replaced; null removes one. Parts that are not stored are ignored. */
function withParts(present: Members, attribute: Attribute, parts: Members): Members {
  const next: Record<string, unknown> = { ...present };
  for (const [name, value] of Object.entries(parts)) {
    const part = subAttributeOf(attribute, name);
    if (!part) continue;
    if (value === null || value === undefined) delete next[part.name];
    else next[part.name] = value;
  }
  return next;
}

function changedList(present: readonly Members[], operation: PatchOperation): readonly Members[] {
  const { op, path, attribute, value } = operation;
  if (path.filter) return changedMatches(present, path.filter, operation);
  if (path.sub !== undefined) {
    const part = { [path.sub]: op === 'remove' ? null : value };
    const all = present.length === 0 && op !== 'remove' ? [{}] : present;
    return all.map((one) => withParts(one, attribute, part));
  }
  if (op === 'replace' || (op === 'add' && value === null)) return valuesOf(value, attribute);
  const named = valuesOf(value, attribute);
  const others = present.filter((one) => !named.some((other) => isSame(one, other)));
  if (op === 'remove') return value === undefined || value === null ? [] : others;
  return onePrimary([...others, ...named], named);
}

function changedMatches(
  present: readonly Members[],
  filter: Filter,
  { op, path, attribute, value }: PatchOperation,
): readonly Members[] {
  const isMatch = (one: Members) => valueMatches(filter, one, attribute);
  if (op === 'remove') {
    const { sub } = path;
    if (sub === undefined) return present.filter((one) => !isMatch(one));
    return present.map((one) => (isMatch(one) ? withParts(one, attribute, { [sub]: null }) : one));
  }
  const given = path.sub === undefined ? value : { [path.sub]: value };
  if (!isObject(given)) throw badRequest('invalidValue', `${attribute.name} must be an object`);
  const parts = knownParts(given, attribute);
  const matched = present.filter(isMatch);
  if (matched.length > 0) {
    const changed = present.map((one) => (isMatch(one) ? withParts(one, attribute, parts) : one));
    return onePrimary(
      changed,
      changed.filter((_, at) => present[at] && isMatch(present[at])),
    );
  }
  // Microsoft Entra replaces emails[type eq "work"].value even if no such value exists yet.
  const described = describedBy(filter, attribute);
  if (!described) throw badRequest('noTarget', 'no value matches the path');
  const added = withParts(described, attribute, parts);
  return onePrimary([...present, added], [added]);
}

/** The value that a filter describes, if it consists of `eq` comparisons joined by `and`. */
function describedBy(filter: Filter, attribute: Attribute): Members | undefined {
  if (filter.type === 'and') {
    const parts = filter.parts.map((part) => describedBy(part, attribute));
    if (parts.some((part) => part === undefined)) return undefined;
    return Object.assign({}, ...parts);
  }
  if (filter.type !== 'compare' || filter.operator !== 'eq') return undefined;
  return withParts({}, attribute, { [filter.path.attribute]: filter.value });
}

/** The values of a multi-valued attribute; a text stands for the part `value`. @throws {ScimError} 400 `invalidValue` */
function valuesOf(value: unknown, attribute: Attribute): readonly Members[] {
  if (value === undefined || value === null) return [];
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  return limited(given, attribute).map((one) => {
    if (typeof one === 'string') return { value: one };
    if (isObject(one)) return withParts({}, attribute, one);
    throw badRequest('invalidValue', `${attribute.name} must be a list of objects`);
  });
}

/** @throws {ScimError} 400 `invalidValue` */
function limited<Value>(values: readonly Value[], { name }: Attribute): readonly Value[] {
  if (values.length <= mostValues) return values;
  throw badRequest('invalidValue', `${name} must have at most ${mostValues} values`);
}

function isSame(one: Members, other: Members): boolean {
  return one['value'] === other['value'] && (other['type'] ?? one['type']) === one['type'];
}

/** If a changed value is primary, no other value stays primary. RFC 7643 §2.4 */
function onePrimary(all: readonly Members[], changed: readonly Members[]): readonly Members[] {
  if (!changed.some(({ primary }) => isTrue(primary))) return all;
  return all.map((one) => {
    if (changed.includes(one) || !isTrue(one['primary'])) return one;
    return { ...one, primary: false };
  });
}

/** Microsoft Entra sends Boolean values as text. */
function isTrue(value: unknown): boolean {
  return value === true || (typeof value === 'string' && value.toLowerCase() === 'true');
}
