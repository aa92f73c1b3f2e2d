import { z } from 'zod';

/** What a server offers and a caller may be refused. MCP 2026-07-28 server: tools, prompts, resources, resource templates */
export const primitiveKinds = ['tool', 'prompt', 'resource', 'template'] as const;
export type PrimitiveKind = (typeof primitiveKinds)[number];

/** Who may use a tool: everyone who may use the server, or the members of these groups (ids). Without groups, no person. */
export type Audience = 'everyone' | ReadonlySet<string>;

/** What administrators decided about who may use what a server offers, by its own names. */
export interface AccessRules {
  /** For what has no rule of its own, and what the server will offer later. */
  readonly others: Readonly<Partial<Record<'tool' | 'prompt' | 'resource', Audience>>>;
  readonly named: Readonly<Record<PrimitiveKind, ReadonlyMap<string, Audience>>>;
}

/** What a key, a client or a grant is limited to. */
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

/** What follows from the review of a server's definitions, as far as calls depend on it. */
export interface Offered {
  /** Names that are closed until an administrator accepts them. */
  readonly withheld: Readonly<Partial<Record<PrimitiveKind, ReadonlySet<string>>>>;
  /** The only names that are open. Absent: all that are not withheld, or, at a server with rules, no list was read yet. */
  readonly open: Readonly<Partial<Record<PrimitiveKind, ReadonlySet<string>>>>;
  /** The tools that only read, as an administrator accepted or corrected their annotations. */
  readonly readOnly: ReadonlySet<string>;
}

/** Who asks, as far as rights per tool depend on it. */
export interface ToolCaller {
  /** The ids of the person's groups; absent for a credential that acts for no person. */
  readonly groups?: ReadonlySet<string> | undefined;
  /** What the key, or the client and the grant, are limited to. All of them apply. */
  readonly selections: readonly ToolSelection[];
}

const names = z.array(z.string());
const audienceSchema = z.union([z.literal('everyone'), names]);
const namedSchema = z.record(z.string(), audienceSchema);

const rulesSchema = z.object({
  others: z.partialRecord(z.enum(['tool', 'prompt', 'resource']), audienceSchema),
  named: z.partialRecord(z.enum(primitiveKinds), namedSchema),
});

const namesOfKinds = z.partialRecord(z.enum(primitiveKinds), names);

const offeredSchema = z.object({
  withheld: namesOfKinds.default({}),
  open: namesOfKinds.default({}),
  readOnly: names.default([]),
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
    new Map(Object.entries(named[kind] ?? {}).map(([name, who]) => [name, audience(who)]));
  return {
    others: mapped(others, audience),
    named: {
      tool: ofKind('tool'),
      prompt: ofKind('prompt'),
      resource: ofKind('resource'),
      template: ofKind('template'),
    },
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

export function readOffered(text: string): Offered {
  const { withheld, open, readOnly } = offeredSchema.parse(JSON.parse(text));
  return {
    withheld: mapped(withheld, (list) => new Set(list)),
    open: mapped(open, (list) => new Set(list)),
    readOnly: new Set(readOnly),
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
  /** A group of the person may. */
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

/**
 * What a caller may use of a server: the intersection of what is offered, of the rules for people, and of what the credential is
 * limited to. Names are compared byte for byte.
 */
export class ToolRights {
  readonly #source: RightsSource;
  readonly #caller: ToolCaller;

  constructor(source: RightsSource, caller: ToolCaller) {
    this.#source = source;
    this.#caller = caller;
  }

  /** Whether it may refuse something of this kind, so that lists have to be read. */
  restricts(kind: PrimitiveKind): boolean {
    const { hiddenTools, offered, rules } = this.#source;
    if (rules || offered.open[kind] || (offered.withheld[kind]?.size ?? 0) > 0) return true;
    if (kind === 'tool' && hiddenTools.length > 0) return true;
    return this.#caller.selections.some((selection) => limits(selection, kind));
  }

  /** Whether it depends on who calls, so that a list must not be shared between callers. */
  get dependsOnCaller(): boolean {
    return (
      this.#source.rules !== undefined || this.#caller.selections.some(({ type }) => type !== 'all')
    );
  }

  /** For a tool or prompt by its name, for a resource by its URI, for a template by its text. */
  verdict(kind: PrimitiveKind, name: string): Verdict {
    const { hiddenTools, offered } = this.#source;
    if (kind === 'tool' && hiddenTools.includes(name)) return 'hidden';
    if (offered.withheld[kind]?.has(name)) return 'withheld';
    if (offered.open[kind]?.has(name) === false) return 'unknown';
    return this.#bySelections(kind, name) ?? this.#byRule(kind, name);
  }

  #bySelections(kind: PrimitiveKind, name: string): Refused | undefined {
    for (const selection of this.#caller.selections) {
      if (selection.type === 'read-only') {
        if (kind === 'tool' && !this.#source.offered.readOnly.has(name)) return 'not_read_only';
      } else if (selection.type === 'chosen' && !isChosen(selection, kind, name)) {
        return 'not_chosen';
      }
    }
    return undefined;
  }

  #byRule(kind: PrimitiveKind, name: string): Verdict {
    const { rules } = this.#source;
    const { groups, selections } = this.#caller;
    const who =
      rules &&
      (rules.named[kind].get(name) ?? rules.others[kind === 'template' ? 'resource' : kind]);
    if (who === undefined || who === 'everyone') return 'everyone';
    if (groups) {
      for (const id of groups) if (who.has(id)) return 'group';
      return 'other_group';
    }
    const byName = selections.some(
      (selection) => selection.type === 'chosen' && isChosen(selection, kind, name),
    );
    return byName ? 'chosen' : 'no_person';
  }
}

type Chosen = Extract<ToolSelection, { type: 'chosen' }>;

function limits(selection: ToolSelection, kind: PrimitiveKind): boolean {
  return selection.type === 'chosen' || (selection.type === 'read-only' && kind === 'tool');
}

function isChosen({ tools, prompts, resources }: Chosen, kind: PrimitiveKind, name: string) {
  const listed = { tool: tools, prompt: prompts, resource: resources, template: resources };
  return listed[kind].includes(name);
}
