// Who may use which of a server's tools, prompts, resources and templates: reading and changing the rules of a target.

import { createHash } from 'node:crypto';
import {
  accessRulesText,
  type AccessRules,
  type Audience,
  groupsOfAudiences,
  type PrimitiveKind,
  primitiveKinds,
  readAccessRules,
} from '#model/tool-rights';
import { lockGroups } from './groups.ts';
import { areGroupsOf } from './server-access.ts';
import { lockTools, renewClosedTools } from './offered.ts';
import { transaction, type Db } from './transaction.ts';

/** Something that a server offers, by its own name: a tool, a prompt, a resource by its URI, or a template. */
export interface Primitive {
  readonly kind: PrimitiveKind;
  readonly name: string;
}

/** The kinds that have a default of their own. Templates share the default of resources. */
export const defaultKinds = ['tool', 'prompt', 'resource'] as const;
export type DefaultKind = (typeof defaultKinds)[number];

/** The kind whose default applies to a primitive of this kind that has no rule of its own. */
export function defaultKindOf(kind: PrimitiveKind): DefaultKind {
  return kind === 'template' ? 'resource' : kind;
}

/** A change of the rules about who may use which primitive. Primitives that are not named keep their rule. */
export interface ToolRulesChange {
  /** Without an audience, the rule is removed, and the default applies. Of several changes of one name, the last counts. */
  readonly named?: readonly (Primitive & { readonly audience: Audience | undefined })[];
  /**
   * Defaults for primitives that the server will offer later. Known primitives without a rule of their own get the previous
   * default as their rule: a change of a default must neither open nor close anything that people use today.
   */
  readonly others?: Readonly<Partial<Record<DefaultKind, Audience>>>;
}

/** The most rules of one server, of all kinds together. */
export const mostToolRules = 10_000;

export const noToolRules: AccessRules = {
  others: {},
  named: { tool: new Map(), prompt: new Map(), resource: new Map(), template: new Map() },
};

export type ToolRulesOutcome = 'done' | 'unknown-server' | 'unknown-group' | 'too-many' | 'stale';

/** A fingerprint of the rules that someone has seen, by which `changeToolRules` notices a change. */
export function rulesSeen(rules: AccessRules): string {
  return createHash('sha256')
    .update(accessRulesText(rules) ?? '')
    .digest('base64url');
}

/**
 * Changes the rules of a target. Takes effect on the next call.
 *
 * @param seen the result of `rulesSeen`: nothing is changed if the rules have changed since
 */
export async function changeToolRules(
  db: Db,
  targetId: string,
  change: ToolRulesChange,
  seen?: string,
): Promise<ToolRulesOutcome> {
  return transaction(db, async (tx) => {
    // Locks tools, groups, endpoint and target in this order, like all code that locks several of them.
    await lockTools(tx, targetId);
    const place = await placeOfTarget(tx, targetId);
    if (!place) return 'unknown-server';
    if (seen !== undefined && seen !== rulesSeen(place.rules)) return 'stale';
    await lockGroups(tx, place.organizationId);
    if (!(await areGroupsOf(tx, place.organizationId, groupsIn(change)))) return 'unknown-group';
    const rules = changedToolRules(place.rules, change, await listKnown(tx, targetId));
    if (countOf(rules) > mostToolRules) return 'too-many';
    const changed = accessRulesText(rules);
    if (changed === accessRulesText(place.rules)) return 'done';
    await tx
      .updateTable('endpoint')
      .set((column) => ({ revision: column('revision', '+', 1) }))
      .where('id', '=', place.endpointId)
      .execute();
    await tx
      .updateTable('target')
      .set({ tool_rules: changed })
      .where('id', '=', targetId)
      .execute();
    await renewClosedTools(tx, targetId);
    return 'done';
  });
}

/** The rules after a change. `known` are the primitives that the server is known to offer. */
export function changedToolRules(
  before: AccessRules,
  { named = [], others = {} }: ToolRulesChange,
  known: readonly Primitive[],
): AccessRules {
  const rules = {
    others: { ...before.others },
    named: {
      tool: new Map(before.named.tool),
      prompt: new Map(before.named.prompt),
      resource: new Map(before.named.resource),
      template: new Map(before.named.template),
    },
  };
  for (const { kind, name } of known) {
    const ofKind = defaultKindOf(kind);
    const [was, becomes] = [defaultAudience(before, ofKind), others[ofKind]];
    const isOther = becomes !== undefined && !isSameAudience(was, becomes);
    if (isOther && !rules.named[kind].has(name)) rules.named[kind].set(name, was);
  }
  Object.assign(rules.others, others);
  for (const { kind, name, audience } of named) {
    if (audience === undefined) rules.named[kind].delete(name);
    else rules.named[kind].set(name, audience);
  }
  return isRestricting(rules) ? rules : { others: {}, named: openedAhead(rules.named, known) };
}

/**
 * Of rules that restrict nothing, keeps those for primitives that the server is not known to offer: a later default must not close these.
 * The other rules only repeat the default, and known primitives keep it when the default changes.
 */
function openedAhead(
  named: AccessRules['named'],
  known: readonly Primitive[],
): AccessRules['named'] {
  const unknown = (kind: PrimitiveKind) => {
    const names = new Set(known.filter((one) => one.kind === kind).map(({ name }) => name));
    return new Map([...named[kind]].filter(([name]) => !names.has(name)));
  };
  return {
    tool: unknown('tool'),
    prompt: unknown('prompt'),
    resource: unknown('resource'),
    template: unknown('template'),
  };
}

/** Who may use a primitive, by its own rule or by the default. */
export function audienceOf(rules: AccessRules, { kind, name }: Primitive): Audience {
  return rules.named[kind].get(name) ?? defaultAudience(rules, defaultKindOf(kind));
}

export function isSameAudience(one: Audience, other: Audience): boolean {
  if (one === 'everyone' || other === 'everyone') return one === other;
  return one.size === other.size && [...one].every((id) => other.has(id));
}

/** The primitives that a server is known to offer, by kind and name. Resources are not among them: their definitions are not stored. */
export async function listKnown(db: Db, targetId: string): Promise<Primitive[]> {
  const rows = await db
    .selectFrom('primitive_definition')
    .select(['kind', 'name'])
    .where('target_id', '=', targetId)
    .where('kind', 'in', primitiveKinds)
    .execute();
  const known = rows.map(({ kind, name }) => ({ kind: kindOf(kind), name }));
  return known.sort(inOrder);
}

/** The primitives that a server is known to offer, and those that its rules and hidden tools name, in the same order. */
export async function listNamed(
  db: Db,
  { id, hiddenTools }: { readonly id: string; readonly hiddenTools: readonly string[] },
  ...rules: readonly AccessRules[]
): Promise<Primitive[]> {
  const all: Primitive[] = [
    ...(await listKnown(db, id)),
    ...hiddenTools.map((name) => ({ kind: 'tool', name }) as const),
    ...rules.flatMap(({ named }) =>
      primitiveKinds.flatMap((kind) => [...named[kind].keys()].map((name) => ({ kind, name }))),
    ),
  ];
  // A kind contains no space, so each key stands for one primitive.
  const once = new Map(all.map((one) => [`${one.kind} ${one.name}`, one]));
  return [...once.values()].sort(inOrder);
}

/** Compares by kind and name. */
export function inOrder(one: Primitive, other: Primitive): number {
  const kinds = primitiveKinds.indexOf(one.kind) - primitiveKinds.indexOf(other.kind);
  if (kinds !== 0) return kinds;
  if (one.name === other.name) return 0;
  return one.name < other.name ? -1 : 1;
}

function kindOf(column: string): PrimitiveKind {
  const kind = primitiveKinds.find((one) => one === column);
  if (kind === undefined) throw new TypeError('a definition has a kind that has no rules');
  return kind;
}

/** Who may use primitives of this kind that have no rule of their own. */
export function defaultAudience({ others }: AccessRules, kind: DefaultKind): Audience {
  return others[kind] ?? 'everyone';
}

function isRestricting({ others, named }: AccessRules): boolean {
  const isRestricted = (audience: Audience) => audience !== 'everyone';
  return (
    Object.values(others).some(isRestricted) ||
    primitiveKinds.some((kind) => [...named[kind].values()].some(isRestricted))
  );
}

function countOf({ named }: AccessRules): number {
  return primitiveKinds.reduce((count, kind) => count + named[kind].size, 0);
}

function groupsIn({ named = [], others = {} }: ToolRulesChange): string[] {
  const audiences = [...named.map(({ audience }) => audience), ...Object.values(others)];
  return [...groupsOfAudiences(audiences.filter((audience) => audience !== undefined))];
}

/** The rules of a target, with its endpoint and organization. */
async function placeOfTarget(db: Db, targetId: string) {
  const row = await db
    .selectFrom('target')
    .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
    .select(['endpoint.id', 'endpoint.organization_id', 'target.tool_rules'])
    .where('target.id', '=', targetId)
    .executeTakeFirst();
  return (
    row && {
      endpointId: row.id,
      organizationId: row.organization_id,
      rules: row.tool_rules === null ? noToolRules : readAccessRules(row.tool_rules),
    }
  );
}
