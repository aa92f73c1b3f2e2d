import { membersIn } from '#gateway/json-parts';
import type { Span } from '#gateway/strict-json';

/** JSON text by member name; `undefined` takes the member away. */
export type MemberChanges = Readonly<Record<string, string | undefined>>;

/**
 * The JSON object at `span`, or an empty one where none is, with `changes` made. The values of the other
 * members stay byte for byte.
 */
export function withMembers(body: Buffer, span: Span | undefined, changes: MemberChanges): string {
  const there = span ? membersIn(body, span) : new Map<string, Span>();
  const kept = [...there]
    .filter(([name]) => !Object.hasOwn(changes, name))
    .map(
      ([name, { start, end }]) => `${JSON.stringify(name)}:${body.toString('utf8', start, end)}`,
    );
  const made = Object.entries(changes).flatMap(([name, json]) =>
    json === undefined ? [] : [`${JSON.stringify(name)}:${json}`],
  );
  return `{${[...kept, ...made].join(',')}}`;
}
