import { membersIn } from '#gateway/json-parts';
import type { Span } from '#gateway/strict-json';
import { withMembers, type Edit } from '#gateway/with-members';

/** Members to be there, and what they hold: JSON values, or objects whose members are to be there. */
export interface WantedMembers {
  readonly [name: string]: boolean | number | string | WantedMembers;
}

/** The changes that give the object at `span` these members, in depth; what is there besides stays. */
export function mergedObject(body: Buffer, span: Span, wanted: WantedMembers): Edit[] {
  const there = membersIn(body, span);
  const edits: Edit[] = [];
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(wanted)) {
    const known = there.get(name);
    const isObject = known && body[known.start] === 0x7b;
    if (typeof value === 'object' && isObject) edits.push(...mergedObject(body, known, value));
    else flat[name] = JSON.stringify(value);
  }
  return [...edits, ...withMembers(body, span, flat)];
}
