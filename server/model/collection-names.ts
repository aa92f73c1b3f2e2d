/*
 * The names under which a collection shows what its members offer. They are stored: an entry that was shown once keeps its name, whichever
 * members join or leave and whatever they list later. An entry whose name is taken is hidden until an administrator decides.
 */
import { createHash } from 'node:crypto';
import type { PrimitiveKind } from './tool-rights.ts';

/** Something that a member offers, by the member's own name for it. For a resource this is the URI, for a template its text. */
export interface MemberName {
  readonly kind: PrimitiveKind;
  /** The id of the member's endpoint. */
  readonly member: string;
  readonly name: string;
}

/** A name, and what the collection does with it. */
export type NamedEntry = MemberName &
  (
    | { readonly state: 'shown'; readonly shown: string }
    /** Another entry has the name that this entry wants. */
    | { readonly state: 'waiting' }
    /** An administrator left the entry out. */
    | { readonly state: 'left-out' }
  );

/** The names of one kind that a member listed. */
export interface Listed {
  readonly kind: PrimitiveKind;
  readonly member: string;
  readonly names: readonly string[];
}

/** How many names of one kind are noted for each member. Further names of the member are not shown. */
const mostNames = 2000;

const longestName = 200;
const longestUri = 2000;

/** Whether a name is noted at all. A name that a database cannot store, or that is too long to compare, is never shown. */
export function isNotedName(kind: PrimitiveKind, name: string): boolean {
  const longest = kind === 'resource' || kind === 'template' ? longestUri : longestName;
  const isText = name.isWellFormed() && !name.includes('\0');
  return isText && name !== '' && name.length <= longest;
}

/** The names that assistants accept: Claude and OpenAI refuse the dots and slashes that MCP allows, and all refuse more than 64 characters. */
const accepted = /^[A-Za-z0-9_-]{1,64}$/;
const mostCharacters = 64;
const hashCharacters = 8;

/** Whether assistants accept a name of this kind. URIs and templates are never sent to models as names. */
export function isAcceptedName(kind: PrimitiveKind, name: string): boolean {
  return kind === 'resource' || kind === 'template' || accepted.test(name);
}

/**
 * The name that a tool or prompt wants: its own, unless assistants refuse that. Characters that they refuse become `_`; a name that
 * is too long ends with a digest of it. Pages of MCP Apps call tools by name, so tools of a member with such pages keep theirs.
 */
export function wantedName({ kind, name }: MemberName, hasApps: boolean): string {
  if (isAcceptedName(kind, name) || (hasApps && kind === 'tool')) return name;
  const plain = name.replaceAll(/[^A-Za-z0-9_-]/gu, '_') || '_';
  if (plain.length <= mostCharacters) return plain;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, hashCharacters);
  return `${plain.slice(0, mostCharacters - hashCharacters - 1)}_${digest}`;
}

export type OrderedMembers = readonly { readonly id: string; readonly hasApps: boolean }[];

/** Distinguishes entries of all kinds and members. */
export function entryKey({ kind, member, name }: MemberName): string {
  return JSON.stringify([kind, member, name]);
}

function shownKey(kind: PrimitiveKind, shown: string): string {
  return JSON.stringify([kind, shown]);
}

/**
 * Assigns names to entries that were listed for the first time. Each gets the name that it wants if no other entry has it, and otherwise
 * waits. If several want the same name, the first member gets it. Known entries never change.
 */
export function assignNames(
  known: readonly NamedEntry[],
  members: OrderedMembers,
  listed: readonly Listed[],
): NamedEntry[] {
  const keys = new Set(known.map(entryKey));
  const taken = new Set(
    known.flatMap((entry) => (entry.state === 'shown' ? [shownKey(entry.kind, entry.shown)] : [])),
  );
  const counts = new Map<string, number>();
  const countKey = ({ kind, member }: Pick<MemberName, 'kind' | 'member'>) => `${kind} ${member}`;
  for (const entry of known) counts.set(countKey(entry), (counts.get(countKey(entry)) ?? 0) + 1);
  const added: NamedEntry[] = [];
  for (const { id: member, hasApps } of members) {
    for (const { kind, names } of listed.filter((list) => list.member === member)) {
      for (const name of [...new Set(names)].toSorted()) {
        const pair = { kind, member, name };
        const count = counts.get(countKey(pair)) ?? 0;
        if (keys.has(entryKey(pair)) || count >= mostNames) continue;
        keys.add(entryKey(pair));
        counts.set(countKey(pair), count + 1);
        const shown = wantedName(pair, hasApps);
        const isFree = !taken.has(shownKey(kind, shown));
        if (isFree) taken.add(shownKey(kind, shown));
        added.push(isFree ? { ...pair, state: 'shown', shown } : { ...pair, state: 'waiting' });
      }
    }
  }
  return added;
}

/** What an administrator decides about one entry. */
export type NameDecision =
  /** Shows the entry under its own name, changed as far as assistants require. */
  | { readonly decision: 'show' }
  | { readonly decision: 'rename'; readonly as: string }
  | { readonly decision: 'leave-out' }
  /** Gives the entry the name that it wants; the entry that has this name is left out. */
  | { readonly decision: 'replace' };

/** Why a decision is refused. */
export type DecisionProblem =
  | { readonly problem: 'unknown' }
  /** Another entry has the name. */
  | { readonly problem: 'taken'; readonly by: NamedEntry }
  /** Assistants refuse the name. */
  | { readonly problem: 'refused-name' }
  /** Pages of MCP Apps of the member call the tool by its own name. */
  | { readonly problem: 'has-apps' }
  /** A resource keeps its URI. */
  | { readonly problem: 'not-renamed' };

/** The entries that a decision changes, as they are afterwards. */
export function decideName(
  known: readonly NamedEntry[],
  pair: MemberName,
  { hasApps, ...chosen }: NameDecision & { readonly hasApps: boolean },
): readonly NamedEntry[] | DecisionProblem {
  const entry = known.find((one) => entryKey(one) === entryKey(pair));
  if (!entry) return { problem: 'unknown' };
  const { kind, member, name } = entry;
  const own = { kind, member, name };
  if (chosen.decision === 'leave-out') return [{ ...own, state: 'left-out' }];
  const wanted = wantedName(own, hasApps);
  const shown = chosen.decision === 'rename' ? chosen.as : wanted;
  if (chosen.decision === 'rename' && shown !== wanted) {
    if (kind === 'resource' || kind === 'template') return { problem: 'not-renamed' };
    if (hasApps && kind === 'tool') return { problem: 'has-apps' };
    if (!isAcceptedName(kind, shown)) return { problem: 'refused-name' };
  }
  const owner = known.find(
    (one) => one.kind === kind && one.state === 'shown' && one.shown === shown && one !== entry,
  );
  const after: NamedEntry = { ...own, state: 'shown', shown };
  if (!owner) return [after];
  if (chosen.decision !== 'replace') return { problem: 'taken', by: owner };
  const left = { kind: owner.kind, member: owner.member, name: owner.name };
  // The entry that gives up the name comes first, so that two never have it at the same time.
  return [{ ...left, state: 'left-out' }, after];
}
