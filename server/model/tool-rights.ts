import { hash } from 'node:crypto';

import { z } from 'zod';

import { LimitedMap } from './limited-map.ts';
import { ResourceNames, ResourceRules } from './resource-rules.ts';
import { ResourceUri, type Steps } from './resource-uri.ts';

/** The kinds of primitives that a server offers and a caller may be refused. MCP 2026-07-28 server: tools, prompts, resources, resource templates */
export const primitiveKinds = ['tool', 'prompt', 'resource', 'template'] as const;
export type PrimitiveKind = (typeof primitiveKinds)[number];

/** Who may use a tool: everyone who may use the server, or the members of these groups (ids). With an empty set, no person may. */
export type Audience = 'everyone' | ReadonlySet<string>;

/** The decisions of administrators about who may use what a server offers, by the server's own names. */
export interface AccessRules {
  /** For primitives without a rule of their own, including those that the server will offer later. */
  readonly others: Readonly<Partial<Record<'tool' | 'prompt' | 'resource', Audience>>>;
  readonly named: Readonly<Record<PrimitiveKind, ReadonlyMap<string, Audience>>>;
}

/** The selection that a key, a client or a grant is limited to. */
export type ToolSelection =
  | { readonly type: 'all' }
  /** Tools whose `readOnlyHint` an administrator accepted. Prompts and resources are only read anyway. */
  | { readonly type: 'read-only' }
  | {
      readonly type: 'chosen';
      readonly tools: readonly string[];
      readonly prompts: readonly string[];
      /** URIs and URI templates. */
      readonly resources: readonly string[];
    };

/** The results of the review of a server's definitions, as far as calls depend on them. */
export interface Offered {
  /** Names that are closed until an administrator accepts them. */
  readonly withheld: Readonly<Partial<Record<PrimitiveKind, ReadonlySet<string>>>>;
  /** The only names that are open. If absent, all that are not withheld are open or, at a server with rules, no list was read yet. */
  readonly open: Readonly<Partial<Record<PrimitiveKind, ReadonlySet<string>>>>;
  /** The tools that only read, as an administrator accepted or corrected their annotations. */
  readonly readOnly: ReadonlySet<string>;
  /** Changes when lists show the same names differently, for example after a correction. */
  readonly revision?: string | undefined;
}

/** The caller, as far as rights per tool depend on it. */
export interface ToolCaller {
  /** The ids of the person's groups; absent for a credential that acts for no person. */
  readonly groups?: ReadonlySet<string> | undefined;
  /** The limits of the key, or of the client and the grant. All of them apply. */
  readonly selections: readonly ToolSelection[];
}

const names = z.array(z.string());
const audienceSchema = z.union([z.literal('everyone'), names]);
/** Pairs, because a record would lose a name like `__proto__`. */
const namedSchema = z
  .custom<object>((value) => typeof value === 'object' && value !== null)
  .transform((named) =>
    Object.entries(named).map(([name, who]) => [name, audienceSchema.parse(who)] as const),
  );

const rulesSchema = z.object({
  others: z.partialRecord(z.enum(['tool', 'prompt', 'resource']), audienceSchema),
  named: z.partialRecord(z.enum(primitiveKinds), namedSchema),
});

const namesOfKinds = z.partialRecord(z.enum(primitiveKinds), names);

const offeredSchema = z.object({
  withheld: namesOfKinds.default({}),
  open: namesOfKinds.default({}),
  readOnly: names.default([]),
  revision: z.string().optional(),
});

export const toolSelectionSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('all') }),
  z.strictObject({ type: z.literal('read-only') }),
  z.strictObject({
    type: z.literal('chosen'),
    tools: names.default([]),
    prompts: names.default([]),
    resources: names.default([]),
  }),
]);

export function readToolSelection(text: string): ToolSelection {
  return toolSelectionSchema.parse(JSON.parse(text));
}

/** Reads the JSON that `accessRulesText` wrote. */
export function readAccessRules(text: string): AccessRules {
  const { others, named } = rulesSchema.parse(JSON.parse(text));
  const ofKind = (kind: PrimitiveKind) =>
    new Map((named[kind] ?? []).map(([name, who]) => [name, audience(who)]));
  return {
    others: mapped(others, audience),
    named: ofEachKind(ofKind),
  };
}

/** Rules as JSON; `null` if there are none. Equal rules have equal texts. */
export function accessRulesText({ others, named }: AccessRules): string | null {
  const listed = (who: Audience) => (who === 'everyone' ? who : [...who].toSorted());
  const ofKinds = primitiveKinds.flatMap((kind) => {
    const pairs = [...named[kind]].sort(([a], [b]) => (a < b ? -1 : 1));
    if (pairs.length === 0) return [];
    return [[kind, Object.fromEntries(pairs.map(([name, who]) => [name, listed(who)]))] as const];
  });
  const restricted = Object.entries(others).filter(([, who]) => who !== 'everyone');
  if (ofKinds.length === 0 && restricted.length === 0) return null;
  const ofOthers = restricted
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([kind, who]) => [kind, listed(who)] as const);
  return JSON.stringify({
    others: Object.fromEntries(ofOthers),
    named: Object.fromEntries(ofKinds),
  });
}

/** The ids of all groups that rules name, those of deleted groups included. */
export function groupsOfRules({ others, named }: AccessRules): ReadonlySet<string> {
  const ofNames = primitiveKinds.flatMap((kind) => Array.from(named[kind].values()));
  return groupsOfAudiences([...Object.values(others), ...ofNames]);
}

export function groupsOfAudiences(audiences: readonly Audience[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const who of audiences) if (who !== 'everyone') for (const id of who) ids.add(id);
  return ids;
}

export function readOffered(text: string): Offered {
  const { withheld, open, readOnly, revision } = offeredSchema.parse(JSON.parse(text));
  return {
    withheld: mapped(withheld, (list) => new Set(list)),
    open: mapped(open, (list) => new Set(list)),
    readOnly: new Set(readOnly),
    ...(revision !== undefined && { revision }),
  };
}

function audience(who: 'everyone' | readonly string[]): Audience {
  return who === 'everyone' ? who : new Set(who);
}

function mapped<Key extends string, From, To>(
  record: Readonly<Partial<Record<Key, From>>>,
  to: (value: From) => To,
): Partial<Record<Key, To>>;
function mapped<From, To>(record: Readonly<Record<string, From>>, to: (value: From) => To) {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, to(value)]));
}

/** Why a caller may use something, or not. */
export type Verdict =
  | 'everyone'
  /** A group of the person may use it. */
  | 'group'
  /** An administrator chose it by name for this credential. */
  | 'chosen'
  | Refused;

export type Refused =
  | 'hidden'
  /** Not accepted yet: new, or changed where changes are withheld. */
  | 'withheld'
  /** On no accepted list. */
  | 'unknown'
  | 'other_group'
  /** Restricted to groups, and the caller acts for no person. */
  | 'no_person'
  | 'not_read_only'
  | 'not_chosen';

const allowing: ReadonlySet<Verdict> = new Set<Verdict>(['everyone', 'group', 'chosen']);

export function allows(verdict: Verdict): boolean {
  return allowing.has(verdict);
}

/** The decisions of administrators that rights depend on. */
export interface RightsSource {
  readonly hiddenTools: readonly string[];
  readonly offered: Offered;
  readonly rules?: AccessRules | undefined;
}

/** The lists about whose changes callers are notified. The list of resources includes their templates. */
export const primitiveLists = ['tool', 'prompt', 'resource'] as const;
export type PrimitiveList = (typeof primitiveLists)[number];

/**
 * What a caller may use of a server: the intersection of what is offered, of the rules for people, and of what the credential is
 * limited to. Names are compared byte for byte.
 *
 * For a URI, the first of these decides: a rule of its own; a rule that closes another URI, if an upstream may read this URI as that;
 * the rules of templates that match it, of which one that closes outweighs all that open; the rule for others.
 */
export class ToolRights {
  readonly #source: RightsSource;
  readonly #caller: ToolCaller;
  readonly #read: ReadSource;
  readonly #isFree: Readonly<Record<PrimitiveKind, boolean>>;
  readonly #choices: readonly Choice[];

  constructor(source: RightsSource, caller: ToolCaller) {
    const { selections } = caller;
    const read = readSource(source);
    const isFree = (kind: PrimitiveKind) =>
      read.isFree[kind] && !selections.some((selection) => limits(selection, kind));
    this.#source = source;
    this.#caller = caller;
    this.#read = read;
    this.#isFree = ofEachKind(isFree);
    this.#choices = selections.flatMap((selection) =>
      selection.type === 'chosen' ? [new Choice(selection)] : [],
    );
  }

  /** Whether these rights were made from this record of the decisions. */
  isOf(source: RightsSource): boolean {
    return source === this.#source;
  }

  /** Whether something of this kind may be refused, so that lists have to be read. */
  restricts(kind: PrimitiveKind): boolean {
    return !this.#isFree[kind];
  }

  /** Whether administrators wrote rules about this kind, so that a refusal must not reveal whether a name exists. */
  hasRules(kind: PrimitiveKind): boolean {
    return this.#read.hasRules[kind];
  }

  /** Whether there are rules about this kind, but the list of its names was not read yet. */
  isUnread(kind: PrimitiveKind): boolean {
    return kind !== 'resource' && this.hasRules(kind) && !this.#source.offered.open[kind];
  }

  /** Whether the rights depend on the caller, so that a list must not be shared between callers. */
  get dependsOnCaller(): boolean {
    return (
      this.#source.rules !== undefined || this.#caller.selections.some(({ type }) => type !== 'all')
    );
  }

  /** `name` is the name of a tool or prompt, the URI of a resource, or the text of a template. The names of one list share `steps`. */
  verdict(kind: PrimitiveKind, name: string, steps?: Steps): Verdict {
    if (this.#isFree[kind]) return 'everyone';
    const asked = askedFor(kind, name, steps);
    return (
      this.#hidden(asked) ?? this.#withheld(asked) ?? this.#unknown(asked) ?? this.#granted(asked)
    );
  }

  /**
   * Whether the caller's list contains something that the server has just listed. The list was already compared with the accepted
   * definitions, more recently than `offered` was read.
   */
  lists(kind: PrimitiveKind, name: string, steps?: Steps): boolean {
    if (this.#isFree[kind]) return true;
    const asked = askedFor(kind, name, steps);
    const withheld = kind === 'resource' ? this.#withheld(asked) : undefined;
    return allows(this.#hidden(asked) ?? withheld ?? this.#granted(asked));
  }

  /** A digest that differs when the caller's list may have changed. */
  listState(list: PrimitiveList): string {
    const { selections, groups } = this.#caller;
    const { listStates, ruledGroups } = this.#read;
    const ruled = groups && [...groups].filter((id) => ruledGroups.has(id)).toSorted();
    const caller = JSON.stringify([list, ruled, selections]);
    const known = listStates.get(caller);
    if (known !== undefined) return known;
    const kinds: readonly PrimitiveKind[] = list === 'resource' ? ['resource', 'template'] : [list];
    const { revision } = this.#source.offered;
    const text = JSON.stringify([revision, ...kinds.map((kind) => this.#stateOf(kind))]);
    const state = hash('sha256', text, 'base64url').slice(0, digestLetters);
    listStates.set(caller, state);
    return state;
  }

  #stateOf(kind: PrimitiveKind): unknown {
    if (this.#isFree[kind]) return null;
    if (kind === 'resource') return this.#stateOfResources();
    const all = this.#read.namesOf(kind);
    const allowed = all.filter((name) => allows(this.verdict(kind, name)));
    const isKnown = this.#source.offered.open[kind] !== undefined;
    const others = this.#opens(this.#read.others(kind));
    return [allowed, isKnown, others && !isKnown ? all : null, this.#caller.selections];
  }

  /** Everything that can decide about a URI, because a list may contain URIs that no decision names. */
  #stateOfResources(): unknown {
    const { offered, rules } = this.#source;
    const decided = (['resource', 'template'] as const).map((kind) =>
      Array.from(rules?.named[kind] ?? [], ([name, who]) => [name, this.#opens(who)] as const),
    );
    const others = this.#opens(this.#read.others('resource'));
    // Where nothing is open, it does not matter what else is closed.
    const isAnyOpen = others || decided.flat().some(([, isOpen]) => isOpen);
    const listed = (set: ReadonlySet<string> | undefined) => set && [...set];
    const { withheld, open } = offered;
    const review = [withheld.resource, withheld.template, open.resource, open.template];
    return [others, isAnyOpen ? decided : null, review.map(listed), this.#caller.selections];
  }

  /** Whether an audience admits the caller to a name that was not chosen for the credential. */
  #opens(who: Audience): boolean {
    return allows(this.#decided(who, () => false));
  }

  #hidden({ kind, name }: Asked): Refused | undefined {
    return kind === 'tool' && this.#read.hidden.has(name) ? 'hidden' : undefined;
  }

  #withheld({ kind, name, uri }: Asked): Refused | undefined {
    const { withheldResources } = this.#read;
    if (this.#source.offered.withheld[kind]?.has(name)) return 'withheld';
    if (!uri || this.#source.rules?.named.resource.has(name)) return undefined;
    return withheldResources.mayCover(uri) ? 'withheld' : undefined;
  }

  #unknown({ kind, name, uri }: Asked): Refused | undefined {
    const open = this.#source.offered.open[kind];
    if (!open || open.has(name)) return undefined;
    return uri && this.#read.openResources.cover(uri) ? undefined : 'unknown';
  }

  #granted(asked: Asked): Verdict {
    return this.#bySelections(asked) ?? this.#byRules(asked);
  }

  #bySelections(asked: Asked): Refused | undefined {
    const isReadOnly = this.#caller.selections.some(({ type }) => type === 'read-only');
    const { readOnly } = this.#source.offered;
    if (isReadOnly && asked.kind === 'tool' && !readOnly.has(asked.name)) return 'not_read_only';
    return this.#choices.every((choice) => choice.has(asked)) ? undefined : 'not_chosen';
  }

  #byRules(asked: Asked): Verdict {
    const { kind, name, uri } = asked;
    const isChosen = () => this.#choices.some((choice) => choice.has(asked));
    const isClosing = (who: Audience) => !allows(this.#decided(who, isChosen));
    const who =
      this.#source.rules?.named[kind].get(name) ??
      (uri && this.#read.resources.deciding(uri, isClosing)) ??
      this.#read.others(kind);
    return this.#decided(who, isChosen);
  }

  /** `isChosen` says whether an administrator chose the name for the credential. */
  #decided(who: Audience, isChosen: () => boolean): Verdict {
    if (who === 'everyone') return 'everyone';
    const { groups } = this.#caller;
    if (!groups) return isChosen() ? 'chosen' : 'no_person';
    for (const id of groups) if (who.has(id)) return 'group';
    return 'other_group';
  }
}

/** The primitive that a caller wants to use. */
interface Asked {
  readonly kind: PrimitiveKind;
  readonly name: string;
  /** The name, if it is that of a resource. */
  readonly uri: ResourceUri | undefined;
}

function askedFor(kind: PrimitiveKind, name: string, steps?: Steps): Asked {
  return { kind, name, uri: kind === 'resource' ? new ResourceUri(name, steps) : undefined };
}

function ofEachKind<Value>(
  value: (kind: PrimitiveKind) => Value,
): Readonly<Record<PrimitiveKind, Value>> {
  return {
    tool: value('tool'),
    prompt: value('prompt'),
    resource: value('resource'),
    template: value('template'),
  };
}

function limits(selection: ToolSelection, kind: PrimitiveKind): boolean {
  return selection.type === 'chosen' || (selection.type === 'read-only' && kind === 'tool');
}

/** The names that were chosen for a credential, prepared for a lookup by every call. */
class Choice {
  readonly #names: Readonly<Record<'tool' | 'prompt' | 'template', ReadonlySet<string>>>;
  readonly #resources: ResourceNames;

  constructor({ tools, prompts, resources }: Extract<ToolSelection, { type: 'chosen' }>) {
    this.#names = {
      tool: new Set(tools),
      prompt: new Set(prompts),
      template: new Set(resources),
    };
    this.#resources = new ResourceNames(
      resources,
      resources.filter((text) => text.includes('{')),
    );
  }

  has({ kind, name, uri }: Asked): boolean {
    if (kind !== 'resource') return this.#names[kind].has(name);
    return uri !== undefined && this.#resources.cover(uri);
  }
}

/** Very many sessions keep digests of their lists, so the digests are short. */
const digestLetters = 16;

/** How many callers, with different groups or selections, are remembered for one source. */
const mostCallers = 1000;

/** The facts that depend only on the decisions about a server, computed once for all of its callers. */
class ReadSource {
  readonly hidden: ReadonlySet<string>;
  readonly hasRules: Readonly<Record<PrimitiveKind, boolean>>;
  /** Whether everyone may use everything of a kind, as far as their credentials allow. */
  readonly isFree: Readonly<Record<PrimitiveKind, boolean>>;
  readonly resources: ResourceRules<Audience>;
  readonly withheldResources: ResourceNames;
  readonly openResources: ResourceNames;
  readonly ruledGroups: ReadonlySet<string>;
  /** The states of lists, by the list and by those facts about the caller that it depends on. */
  readonly listStates = new LimitedMap<string, string>(mostCallers);
  readonly #names = new Map<PrimitiveKind, readonly string[]>();
  readonly #source: RightsSource;

  constructor(source: RightsSource) {
    const { hiddenTools, offered, rules } = source;
    const { withheld, open } = offered;
    this.#source = source;
    this.hidden = new Set(hiddenTools);
    this.ruledGroups = rules ? groupsOfRules(rules) : new Set();
    const isRuled = (kind: PrimitiveKind) => (rules?.named[kind].size ?? 0) > 0;
    const hasRules = (kind: PrimitiveKind): boolean =>
      this.others(kind) !== 'everyone' ||
      (kind === 'tool' || kind === 'prompt'
        ? isRuled(kind)
        : isRuled('resource') || isRuled('template'));
    this.hasRules = ofEachKind(hasRules);
    const isWithheld = (kind: PrimitiveKind) => (withheld[kind]?.size ?? 0) > 0;
    const isFree = (kind: PrimitiveKind) => !hasRules(kind) && !open[kind] && !isWithheld(kind);
    this.isFree = {
      ...ofEachKind(isFree),
      tool: isFree('tool') && this.hidden.size === 0,
      resource: isFree('resource') && !isWithheld('template'),
    };
    this.resources = new ResourceRules(rules?.named.resource ?? [], rules?.named.template ?? []);
    this.withheldResources = new ResourceNames(withheld.resource ?? [], withheld.template ?? []);
    this.openResources = new ResourceNames(open.resource ?? [], open.template ?? []);
  }

  /** The audience of names without a rule of their own. */
  others(kind: PrimitiveKind): Audience {
    return this.#source.rules?.others[kind === 'template' ? 'resource' : kind] ?? 'everyone';
  }

  /** All names of a kind about which there is a decision, sorted. */
  namesOf(kind: PrimitiveKind): readonly string[] {
    const known = this.#names.get(kind);
    if (known) return known;
    const { hiddenTools, offered, rules } = this.#source;
    const all = new Set([
      ...(offered.withheld[kind] ?? []),
      ...(offered.open[kind] ?? []),
      ...(rules?.named[kind].keys() ?? []),
      ...(kind === 'tool' ? [...hiddenTools, ...offered.readOnly] : []),
    ]);
    const sorted = [...all].toSorted();
    this.#names.set(kind, sorted);
    return sorted;
  }
}

/** Admissions share the record of a server until it changes. */
const sources = new WeakMap<RightsSource, ReadSource>();

function readSource(source: RightsSource): ReadSource {
  const known = sources.get(source);
  if (known) return known;
  const made = new ReadSource(source);
  sources.set(source, made);
  return made;
}
