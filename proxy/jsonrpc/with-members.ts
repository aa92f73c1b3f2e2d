import { jsonMembers, type Span } from './json-members.ts';

/** JSON text by member name; `undefined` takes the member away. */
export type MemberChanges = Readonly<Record<string, string | Buffer | undefined>>;

/**
 * The JSON object at `span` of `bytes` (an empty one without `span`, or when no object is there) with
 * `changes` made. The values of the other members stay byte for byte.
 */
export function withMembers(bytes: Buffer, span: Span | undefined, changes: MemberChanges): Buffer {
  const members = (span && jsonMembers(bytes, span)) ?? new Map<string, Span>();
  const kept = [...members]
    .filter(([name]) => !Object.hasOwn(changes, name))
    .map(([name, { start, end }]): [string, Buffer] => [name, bytes.subarray(start, end)]);
  const made = Object.entries(changes).flatMap(([name, value]): [string, string | Buffer][] =>
    value === undefined ? [] : [[name, value]],
  );
  const parts = [...kept, ...made].flatMap(([name, value], index) => [
    Buffer.from(`${index === 0 ? '' : ','}${JSON.stringify(name)}:`),
    typeof value === 'string' ? Buffer.from(value) : value,
  ]);
  return Buffer.concat([Buffer.from('{'), ...parts, Buffer.from('}')]);
}
