import { matches, parseFilter, type Filter } from './filter.ts';
import { memberOf } from './patch.ts';
import type { ResourceKind } from './schemas.ts';
import { schemaIds } from './schemas.ts';
import { badRequest } from './scim-error.ts';

export const mostResults = 500;
const usualResults = 100;
const rowsAtOnce = 500;
/** The most resources that one filter is compared with. */
export const mostCompared = 20_000;

/** A resource as it is sent. */
export type Resource = Readonly<Record<string, unknown>> & { readonly id: string };

/** The parameters of a query. RFC 7644 §3.4.2 */
export interface ListQuery {
  readonly filter: Filter | undefined;
  /** From 1. */
  readonly startIndex: number;
  readonly count: number;
  readonly projection: Projection;
}

/** The attributes to send (`only`; `undefined` means all) and to leave out (`without`), in lower case. RFC 7644 §3.9 */
export interface Projection {
  readonly only: ReadonlySet<string> | undefined;
  readonly without: ReadonlySet<string>;
}

type Query = Readonly<Record<string, unknown>>;

/** @throws {ScimError} 400 */
export function readListQuery(query: Query): ListQuery {
  const filter = textIn(query, 'filter');
  return {
    filter: filter === undefined || filter.trim() === '' ? undefined : parseFilter(filter),
    startIndex: Math.max(1, numberIn(query, 'startIndex') ?? 1),
    count: Math.min(mostResults, Math.max(0, numberIn(query, 'count') ?? usualResults)),
    projection: readProjection(query),
  };
}

/** Reads the same parameters from the body of a search, where the case of their names does not matter. RFC 7644 §3.4.3 @throws {ScimError} 400 */
export function readSearch(body: Query): ListQuery {
  const given = ['filter', 'startIndex', 'count', 'attributes', 'excludedAttributes'].map(
    (name) => [name, parameterOf(name, memberOf(body, name))] as const,
  );
  return readListQuery(Object.fromEntries(given));
}

/** Converts a member of a search body to the query parameter of that name. */
function parameterOf(name: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  const texts: readonly unknown[] = Array.isArray(value) ? value : [undefined];
  if (texts.every((one) => typeof one === 'string') && name.endsWith('ttributes')) {
    return texts.join(',');
  }
  throw badRequest('invalidValue', `${name} has the wrong type`);
}

export function readProjection(query: Query): Projection {
  const only = namesIn(query, 'attributes');
  return {
    only: only.length > 0 ? new Set(only) : undefined,
    without: new Set(namesIn(query, 'excludedAttributes')),
  };
}

/** Whether an attribute of this name, in lower case, will be sent. */
export function isSent({ only, without }: Projection, name: string): boolean {
  if (only && ![...only].some((one) => one === name || one.startsWith(`${name}.`))) return false;
  return !without.has(name);
}

/** The attributes of a resource that were asked for, and always the schemas and the id. */
export function projected(resource: Resource, projection: Projection): Resource {
  const always = new Set(['schemas', 'id']);
  const kept = Object.entries(resource).filter(
    ([name]) => always.has(name) || isSent(projection, name.toLowerCase()),
  );
  return { ...Object.fromEntries(kept), id: resource.id };
}

function textIn(query: Query, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === 'string') return value;
  throw badRequest('invalidValue', `${name} is repeated`);
}

function numberIn(query: Query, name: string): number | undefined {
  const text = textIn(query, name);
  if (text === undefined || text === '') return undefined;
  if (!/^-?\d{1,9}$/.test(text)) throw badRequest('invalidValue', `${name} must be a number`);
  return Number(text);
}

function namesIn(query: Query, name: string): readonly string[] {
  const prefix = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/;
  return (textIn(query, name) ?? '')
    .slice(0, 2000)
    .split(',')
    .map((one) => one.trim().toLowerCase().replace(prefix, ''))
    .filter((one) => one !== '');
}

/** RFC 7644 §3.4.2 */
export function listResponse(
  resources: readonly unknown[],
  { total, startIndex }: { total: number; startIndex: number },
) {
  return {
    schemas: [schemaIds.list],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  };
}

/**
 * One page of the resources that match a filter, and the number of all matches. `read` returns the resources after an id, in the order of
 * ids. It is called until none are left, so it should return only resources that can match.
 *
 * @throws {ScimError} 400 `tooMany` if `read` returns more than `mostCompared` resources. RFC 7644 §3.4.2.2
 */
export async function scan<Stored extends { readonly id: string }>(
  { filter, startIndex, count }: ListQuery & { readonly filter: Filter },
  kind: ResourceKind,
  {
    read,
    show,
  }: {
    read: (page: { after: string; limit: number }) => Promise<readonly Stored[]>;
    show: (stored: readonly Stored[]) => Promise<readonly Resource[]>;
  },
): Promise<{ readonly items: readonly Stored[]; readonly total: number }> {
  const items: Stored[] = [];
  let total = 0;
  let compared = 0;
  let after = '';
  for (;;) {
    const page = await read({ after, limit: rowsAtOnce });
    compared += page.length;
    if (compared > mostCompared) {
      throw badRequest(
        'tooMany',
        `a filter is compared with at most ${mostCompared} resources: narrow it by id, externalId or userName with eq`,
      );
    }
    const shown = await show(page);
    for (const [at, stored] of page.entries()) {
      const resource = shown[at];
      if (!resource || !matches(filter, resource, kind)) continue;
      total += 1;
      if (total >= startIndex && items.length < count) items.push(stored);
    }
    after = page.at(-1)?.id ?? '';
    if (page.length < rowsAtOnce) return { items, total };
  }
}
