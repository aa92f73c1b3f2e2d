import type { PrimitiveKind } from '#model/tool-rights';
import type { UpstreamKind } from '#model/upstream-kinds';
import { ResourceUri, UriTemplate } from '#model/resource-uri';
import type { Member } from './member-calls.ts';

/** The entry that a shown name stands for. */
export interface ShownEntry {
  readonly member: Member;
  /** The member's own name. */
  readonly name: string;
}

type Collection = UpstreamKind<'collection'>;

/** The names of a collection, in both directions. */
export class ShownNames {
  readonly #entries = new Map<string, ShownEntry>();
  readonly #shown = new Map<string, string>();
  /** In the order of the members. */
  readonly #templates: readonly { readonly template: UriTemplate; readonly member: Member }[];

  constructor({ members, names }: Pick<Collection, 'members' | 'names'>) {
    const templates: { place: number; text: string; member: Member }[] = [];
    for (const [kind, place, name, shown = name] of names) {
      const member = members[place];
      if (!member) continue;
      this.#entries.set(`${kind} ${shown}`, { member, name });
      this.#shown.set(`${kind} ${member.id} ${name}`, shown);
      if (kind === 'template') templates.push({ place, text: name, member });
    }
    this.#templates = templates
      .toSorted((one, other) => one.place - other.place)
      .map(({ text, member }) => ({ template: new UriTemplate(text), member }));
  }

  /** The entry that callers mean by a name; `undefined` for a name that is not shown. */
  find(kind: PrimitiveKind, shown: string): ShownEntry | undefined {
    return this.#entries.get(`${kind} ${shown}`);
  }

  /** The name under which callers see an entry of a member; `undefined` if the entry is not shown. */
  shownOf(kind: PrimitiveKind, { id }: Member, name: string): string | undefined {
    return this.#shown.get(`${kind} ${id} ${name}`);
  }

  /** The member that a URI is read from: the owner of the URI itself, else of the first template that covers it. */
  ownerOf(uri: string): Member | undefined {
    const exact = this.find('resource', uri);
    if (exact) return exact.member;
    const read = new ResourceUri(uri);
    const covering =
      this.#templates.find(({ template }) => template.matchesNarrowly(read)) ??
      this.#templates.find(({ template }) => template.matchesWidely(read));
    return covering?.member;
  }
}

const known = new WeakMap<Collection, ShownNames>();

export function namesOf(collection: Collection): ShownNames {
  let names = known.get(collection);
  if (!names) {
    names = new ShownNames(collection);
    known.set(collection, names);
  }
  return names;
}
