// The parts of a server that a caller may use, according to docs/tools.md, written as plainly as possible.

export const kinds = ['tool', 'prompt', 'template', 'resource'] as const;
export type Kind = (typeof kinds)[number];
/** The kinds that are reviewed from their lists. Resources are reviewed by their templates. */
export const listedKinds = ['tool', 'prompt', 'template'] as const;
export type ListedKind = (typeof listedKinds)[number];
export type Audience = 'everyone' | readonly string[];

export interface Selection {
  readonly type: 'all' | 'read-only' | 'chosen';
  readonly tools: readonly string[];
  readonly prompts: readonly string[];
  readonly resources: readonly string[];
}

/** A definition as the server lists it. */
export interface Listed {
  readonly version: number;
  readonly readOnly: boolean;
}

/** The stored facts about a definition. */
export interface Known {
  readonly accepted: Listed | undefined;
  /** Whether a person accepted it, rather than a policy. */
  readonly isReviewed: boolean;
  /** The definition that the server lists instead. */
  readonly seen: Listed | undefined;
  readonly isRejected: boolean;
  readonly corrected: boolean | undefined;
}

/** Everything that decides rights, except the caller. */
export interface State {
  changedTools: 'flag' | 'withhold';
  newTools: 'offer' | 'review';
  hidden: ReadonlySet<string>;
  readonly listed: Readonly<Record<ListedKind, Map<string, Listed>>>;
  readonly known: Readonly<Record<ListedKind, Map<string, Known>>>;
  readonly rules: Readonly<Record<Kind, Map<string, Audience>>>;
  readonly others: Record<'tool' | 'prompt' | 'resource', Audience>;
}

export interface Caller {
  /** The groups of the person; absent for a credential that acts for no person. */
  readonly groups: ReadonlySet<string> | undefined;
  /** The selections of the credential, and of the client that a person uses. */
  readonly selections: readonly Selection[];
}

/** The templates that match a URI. */
export const matching: Readonly<Record<string, readonly string[]>> = {
  'memo://one': ['memo://{id}'],
  'file:///a/b': ['file:///{+path}'],
  'note://x': [],
};

export function mayUse(state: State, caller: Caller, kind: Kind, name: string): boolean {
  const { groups, selections } = caller;
  const isChosenIn = ({ type, tools, prompts, resources }: Selection) => {
    const chosen = { tool: tools, prompt: prompts, template: resources, resource: resources }[kind];
    return (
      type === 'chosen' && [name, ...(matching[name] ?? [])].some((one) => chosen.includes(one))
    );
  };
  const covers = (selection: Selection) => {
    if (selection.type === 'chosen') return isChosenIn(selection);
    return selection.type === 'all' || kind !== 'tool' || isReadOnly(state, name);
  };
  const admits = (who: Audience) => {
    if (who === 'everyone') return true;
    return groups ? who.some((group) => groups.has(group)) : selections.some(isChosenIn);
  };
  const isHidden = kind === 'tool' && state.hidden.has(name);
  if (isHidden || isWithheld(state, kind, name)) return false;
  return selections.every(covers) && audiences(state, kind, name).every(admits);
}

/** The audiences, all of which must admit a caller. */
function audiences({ rules, others }: State, kind: Kind, name: string): readonly Audience[] {
  const own = rules[kind].get(name);
  if (own) return [own];
  const ofTemplates = (matching[name] ?? [])
    .map((one) => rules.template.get(one))
    .filter((who) => who !== undefined);
  if (kind === 'resource' && ofTemplates.length > 0) return ofTemplates;
  return [others[kind === 'template' ? 'resource' : kind]];
}

function isWithheld({ known, rules, changedTools }: State, kind: Kind, name: string): boolean {
  const isClosed = (one: Known | undefined) =>
    one !== undefined &&
    (!one.accepted || (one.seen !== undefined && (changedTools === 'withhold' || one.isRejected)));
  if (kind !== 'resource') return isClosed(known[kind].get(name));
  if (rules.resource.has(name)) return false;
  return (matching[name] ?? []).some((one) => isClosed(known.template.get(one)));
}

function isReadOnly({ known }: State, name: string): boolean {
  const { accepted, seen, isReviewed, corrected } = known.tool.get(name) ?? {};
  if (!accepted || (seen && seen.readOnly !== accepted.readOnly)) return false;
  return corrected ?? (isReviewed === true && accepted.readOnly);
}
