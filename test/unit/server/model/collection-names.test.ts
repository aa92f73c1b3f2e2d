import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  assignNames,
  decideName,
  entryKey,
  isAcceptedName,
  type Listed,
  type NameDecision,
  type NamedEntry,
  wantedName,
} from '#server/model/collection-names';

const memberIds = ['a', 'b', 'c', 'd'];
const names = ['read', 'write', 'read.file', 'read_file', 'ui', 'x'.repeat(80)];

type Event =
  | { readonly type: 'join' | 'leave'; readonly member: string }
  | { readonly type: 'list'; readonly member: string; readonly names: readonly string[] }
  | { readonly type: 'restart' }
  | Decided;

interface Decided {
  readonly type: 'decide';
  readonly member: string;
  readonly name: string;
  readonly decision: NameDecision;
}

const member = fc.constantFrom(...memberIds);
const name = fc.constantFrom(...names);
const decision: fc.Arbitrary<NameDecision> = fc.oneof(
  fc.constantFrom<NameDecision>(
    { decision: 'show' },
    { decision: 'leave-out' },
    { decision: 'replace' },
  ),
  fc.record({
    decision: fc.constant('rename' as const),
    as: fc.constantFrom('read', 'other', 'b/c'),
  }),
);
const events: fc.Arbitrary<Event[]> = fc.array(
  fc.oneof(
    fc.record({ type: fc.constantFrom('join' as const, 'leave' as const), member }),
    fc.record({ type: fc.constant('list' as const), member, names: fc.uniqueArray(name) }),
    fc.record({ type: fc.constant('restart' as const) }),
    fc.record({ type: fc.constant('decide' as const), member, name, decision }),
  ),
  { maxLength: 40 },
);

/** A collection in memory, as the database keeps it. `d` has pages of MCP Apps. */
class Collection {
  members: { id: string; hasApps: boolean }[] = [];
  entries: NamedEntry[] = [];

  apply(event: Event): void {
    if (event.type === 'join') {
      const isIn = this.members.some(({ id }) => id === event.member);
      if (!isIn) this.members.push({ id: event.member, hasApps: event.member === 'd' });
    } else if (event.type === 'leave') {
      this.members = this.members.filter(({ id }) => id !== event.member);
      this.entries = this.entries.filter((entry) => entry.member !== event.member);
    } else if (event.type === 'list') {
      const listed: Listed = { kind: 'tool', member: event.member, names: event.names };
      this.entries.push(...assignNames(this.entries, this.members, [listed]));
    } else if (event.type === 'restart') {
      // Whatever was listed before is listed again, in another order.
      const lists = this.members.toReversed().map(({ id }): Listed => {
        const own = this.entries.filter((entry) => entry.member === id);
        return { kind: 'tool', member: id, names: own.map((entry) => entry.name).toReversed() };
      });
      this.entries.push(...assignNames(this.entries, this.members, lists));
    } else if (event.type === 'decide') this.decide(event);
  }

  decide({ member: of, name: own, decision: chosen }: Decided): void {
    const hasApps = of === 'd';
    const pair = { kind: 'tool', member: of, name: own } as const;
    const decided = decideName(this.entries, pair, { ...chosen, hasApps });
    if ('problem' in decided) return;
    const changed = new Map(decided.map((entry) => [entryKey(entry), entry]));
    this.entries = this.entries.map((entry) => changed.get(entryKey(entry)) ?? entry);
  }

  /** The names that callers see, each with the key of its entry. */
  shown(): Map<string, string> {
    return new Map(
      this.entries.flatMap((entry) =>
        entry.state === 'shown' ? [[entry.shown, entryKey(entry)] as const] : [],
      ),
    );
  }
}

test('of several that want one name, the first member gets it, and the other one waits for a decision', () => {
  const members = ['b', 'a'].map((id) => ({ id, hasApps: false }));
  const listed = ['a', 'b'].map((id): Listed => ({ kind: 'tool', member: id, names: ['find'] }));
  const entries = assignNames([], members, listed);
  const [ofB, ofA] = [
    { kind: 'tool', member: 'b', name: 'find' },
    { kind: 'tool', member: 'a', name: 'find' },
  ] as const;
  expect(entries).toEqual([
    { ...ofB, state: 'shown', shown: 'find' },
    { ...ofA, state: 'waiting' },
  ]);
  const decide = (chosen: NameDecision) => decideName(entries, ofA, { ...chosen, hasApps: false });
  expect(decide({ decision: 'show' })).toMatchObject({ problem: 'taken', by: ofB });
  expect(decide({ decision: 'rename', as: 'find.a' })).toEqual({ problem: 'refused-name' });
  expect(decide({ decision: 'rename', as: 'find_a' })).toEqual([
    { ...ofA, state: 'shown', shown: 'find_a' },
  ]);
  expect(decide({ decision: 'replace' })).toEqual([
    { ...ofB, state: 'left-out' },
    { ...ofA, state: 'shown', shown: 'find' },
  ]);
});

test('names never move, whoever joins, leaves, lists or collides', () => {
  fc.assert(
    fc.property(events, (all) => {
      const collection = new Collection();
      for (const event of all) {
        const before = collection.shown();
        const { length } = collection.entries;
        collection.apply(event);
        const most = event.type === 'restart' ? length : Infinity;
        expect(collection.entries.length).toBeLessThanOrEqual(most);
        const after = collection.shown();
        // No two entries share a name, and each belongs to a member.
        const shown = collection.entries.filter((entry) => entry.state === 'shown');
        expect(after.size).toBe(shown.length);
        const ids = new Set(collection.members.map(({ id }) => id));
        expect(collection.entries.every((entry) => ids.has(entry.member))).toBe(true);
        // The pages of a member's apps find its tools under their own names.
        expect(shown.filter((one) => one.member === 'd' && one.shown !== one.name)).toEqual([]);
        if (event.type === 'decide') continue;
        const isGone = (key: string) => event.type === 'leave' && key.includes(`"${event.member}"`);
        for (const [one, key] of before) {
          expect(after.get(one)).toBe(isGone(key) ? undefined : key);
        }
      }
    }),
    { numRuns: 1000 },
  );
});

test('what assistants refuse is mapped, except for URIs and what pages call by name', () => {
  const wanted = (own: string, hasApps = false) =>
    wantedName({ kind: 'tool', member: 'a', name: own }, hasApps);
  expect(wanted('read_file')).toBe('read_file');
  expect(wanted('fs/read.file')).toBe('fs_read_file');
  expect(wanted('fs/read.file', true)).toBe('fs/read.file');
  const long = wanted('x'.repeat(100));
  expect(long).toMatch(/^x{55}_[0-9a-f]{8}$/);
  expect(wanted('x'.repeat(101))).not.toBe(long);
  expect(isAcceptedName('resource', 'file:///a b')).toBe(true);
});
