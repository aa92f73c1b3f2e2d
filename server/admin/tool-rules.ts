import { z } from 'zod';

import type { AuditAction } from '#audit/sentences';
import { listGroups } from '#db/groups';
import { previewToolRules, type AffectedCallers } from '#db/rights-preview';
import {
  audienceOf,
  changeToolRules,
  defaultAudience,
  defaultKinds,
  listKnown,
  mostToolRules,
  noToolRules,
  type Primitive,
  rulesSeen,
  type ToolRulesChange,
} from '#db/tool-rules';
import type { ServerRecord } from '#model/endpoints';
import { type Audience, type PrimitiveKind, primitiveKinds } from '#model/tool-rights';
import { ofGroup, unknownGroup } from './groups.ts';
import {
  type Actor,
  type AdministrationPorts,
  auditTarget,
  type AuditNote,
  noteDone,
  organizationOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { ofServer, ownServer, serverPath } from './paths.ts';
import {
  type AdministrationRefusal,
  conflict,
  invalidField,
  notFound,
  problemOf,
} from './refusal.ts';
import { primitiveName, resourceUri } from './tool-selection.ts';
import { fromWire } from './wire-names.ts';

export const toolsPath = `${serverPath}/tools`;

/** The most names that one request can change. */
const mostAtOnce = 1000;
const mostGroups = 100;
/** How many callers of each kind a preview names, and how many tools and other items of each caller. */
const shown = { callers: 50, items: 20 };

const kindField = z
  .enum(primitiveKinds)
  .default('tool')
  .describe('For a resource, `name` is its URI; for a template, the URI template');

/** The fields that name a tool, prompt, resource or template of a server. */
const primitiveFields = { kind: kindField, name: z.string() };

/** Checks a name by the kind that it belongs to. */
function checkName({ kind, name }: Primitive, context: z.RefinementCtx): void {
  const schema = kind === 'tool' || kind === 'prompt' ? primitiveName : resourceUri;
  const [issue] = schema.safeParse(name, { reportInput: true }).error?.issues ?? [];
  if (issue) context.addIssue({ code: 'custom', path: ['name'], message: problemOf(issue) });
}

const primitiveField = z.strictObject(primitiveFields).superRefine(checkName);
const someGroups = z.array(ofGroup.groupId).min(1).max(mostGroups);

const named = z.array(primitiveField).min(1).max(mostAtOnce);
const restricted = z
  .array(z.strictObject({ ...primitiveFields, groupIds: someGroups }).superRefine(checkName))
  .min(1)
  .max(mostAtOnce);

export const audienceView = z
  .object({
    access: z
      .enum(['everyone', 'groups'])
      .describe('Everyone who can use the server, or only the members of these groups'),
    groups: z.array(
      z.object({ id: z.string(), name: z.string().nullable().describe('Null if it was deleted') }),
    ),
  })
  .meta({ id: 'ToolAudience' });
export type AudienceView = z.output<typeof audienceView>;

const ruleView = z.object({
  kind: z.enum(primitiveKinds),
  name: z.string(),
  audience: audienceView,
  isKnown: z
    .boolean()
    .nullable()
    .describe(
      'Whether the server has listed it so far; null for a resource, as only templates are compared',
    ),
});
const rulesView = z.object({ items: z.array(ruleView) }).meta({ id: 'ToolRules' });

/** Returns a function that converts audiences to views with the current names of groups. */
export async function audienceViews(
  organizationId: string,
  { db }: WithDb,
): Promise<(audience: Audience) => AudienceView> {
  const names = new Map((await listGroups(db, organizationId)).map(({ id, name }) => [id, name]));
  return (audience) => {
    if (audience === 'everyone') return { access: 'everyone', groups: [] };
    const groups = [...audience].map((id) => ({ id, name: names.get(id) ?? null }));
    groups.sort((one, other) => ((one.name ?? one.id) < (other.name ?? other.id) ? -1 : 1));
    return { access: 'groups', groups };
  };
}

interface Place {
  readonly organization: { readonly id: string; readonly name: string };
  readonly actor: Actor;
}

/** Changes rules and returns the rules of the names in `change`. @throws {AdministrationRefusal} */
async function changed(
  serverName: string,
  change: ToolRulesChange,
  { organization }: Place,
  ports: AdministrationPorts,
): Promise<z.output<typeof rulesView>> {
  const { db } = ports;
  const { target } = await ownServer(organization.name, serverName, ports);
  const outcome = await changeToolRules(db, target.id, change);
  if (outcome !== 'done') throw refused(outcome);
  const { rules = noToolRules } = (await ownServer(organization.name, serverName, ports)).target;
  const known = new Set((await listKnown(db, target.id)).map(keyOf));
  const view = await audienceViews(organization.id, ports);
  const once = new Map((change.named ?? []).map((one) => [keyOf(one), one]));
  return {
    items: [...once].map(([key, { kind, name }]) => ({
      kind,
      name,
      audience: view(audienceOf(rules, { kind, name })),
      isKnown: kind === 'resource' ? null : known.has(key),
    })),
  };
}

function keyOf({ kind, name }: Primitive): string {
  return `${kind} ${name}`;
}

function refused(
  outcome: Exclude<Awaited<ReturnType<typeof changeToolRules>>, 'done'>,
): AdministrationRefusal {
  switch (outcome) {
    case 'unknown-server':
      return notFound('server');
    case 'stale':
      return conflict(
        'someone changed the rules meanwhile: compare your choice with the present rules, then save again',
      );
    case 'unknown-group':
      return unknownGroup();
    case 'too-many':
      return conflict(
        `a server can have at most ${mostToolRules} rules: remove rules that are not needed, or change the default`,
      );
  }
}

interface OfTools {
  readonly organization: string;
  readonly server: string;
}

/** A tool, prompt, resource or template, or the instructions, and the groups that may use it. */
interface Audited {
  readonly kind: PrimitiveKind | 'instructions';
  readonly name: string;
  readonly groupIds?: readonly string[];
}

/** The target in the audit log: groups first, because a long target is cut off. */
export function toolsTarget({ organization, server }: OfTools, of: readonly Audited[]): string {
  const groups = [...new Set(of.flatMap(({ groupIds = [] }) => groupIds))];
  const names = of.map(({ kind, name }) => (kind === 'tool' ? name : `${kind} ${name}`));
  const ofGroups = groups.length > 0 ? `group:${groups.join(',')} ` : '';
  return `${ofGroups}tool:${organization}/${server}/${names.join(',')}`;
}

/** Adds an audit entry for each of several names, because the entry of the operation contains only the first ones. */
export async function noteEach(
  action: AuditAction,
  server: string,
  all: readonly Audited[],
  place: Place,
  ports: WithDbAndClock,
): Promise<void> {
  if (all.length < 2) return;
  const at = { organization: place.organization.name, server };
  for (const one of all) {
    await noteDone({ action, target: auditTarget(toolsTarget(at, [one])) }, place, ports);
  }
}

export const toolRestrict = organizationOperation({
  name: 'tool.restrict',
  doc: 'Let only the members of groups use tools, prompts, resources or templates; takes effect on the next call, and closes them to keys and clients that act for no person, unless they were chosen for them by name',
  route: { method: 'POST', path: `${toolsPath}/restrict` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, rules: restricted }),
  output: rulesView,
  target: ({ rules, ...at }) => toolsTarget(at, rules),
  async run({ server, rules }, at, ports) {
    const change = rules.map(({ kind, name, groupIds }) => {
      return { kind, name, audience: new Set(groupIds) };
    });
    const output = await changed(server, { named: change }, at, ports);
    await noteEach('tool.restrict', server, rules, at, ports);
    return output;
  },
});

export const toolOpen = audienceOperation({
  name: 'tool.open',
  doc: 'Let everyone who can use the server use tools, prompts, resources or templates; takes effect on the next call',
  path: 'open',
  audience: 'everyone',
});

export const toolRemoveRule = audienceOperation({
  name: 'tool.remove-rule',
  doc: 'Remove the rules of tools, prompts, resources or templates, so that the default applies to them',
  path: 'rules/remove',
});

/** An operation that gives named tools, prompts, resources or templates one audience; `undefined` removes their rules. */
function audienceOperation({
  name,
  doc,
  path,
  audience,
}: {
  readonly name: 'tool.open' | 'tool.remove-rule';
  readonly doc: string;
  readonly path: string;
  readonly audience?: 'everyone';
}) {
  return organizationOperation({
    name,
    doc,
    route: { method: 'POST', path: `${toolsPath}/${path}` },
    permission: 'server.manage',
    input: z.strictObject({ ...ofServer, tools: named }),
    output: rulesView,
    target: ({ tools, ...at }) => toolsTarget(at, tools),
    async run({ server, tools }, at, ports) {
      const change = tools.map((tool) => ({ ...tool, audience }));
      const output = await changed(server, { named: change }, at, ports);
      await noteEach(name, server, tools, at, ports);
      return output;
    },
  });
}

const accessFields = {
  access: z
    .enum(['everyone', 'groups'])
    .describe('Everyone who can use the server, or only groups'),
  groupIds: z.array(ofGroup.groupId).max(mostGroups).default([]),
};

/** @throws {AdministrationRefusal} `invalid` when groups are given with `everyone`, or none with `groups` */
function chosenAudience(
  { access, groupIds }: z.output<z.ZodObject<typeof accessFields>>,
  field: string,
): Audience {
  if (access === 'everyone' && groupIds.length > 0) {
    throw invalidField(field, 'must be empty for everyone');
  }
  if (access === 'groups' && groupIds.length === 0) {
    throw invalidField(field, 'must contain at least one group');
  }
  return access === 'everyone' ? access : new Set(groupIds);
}

const defaultKindField = z
  .enum(defaultKinds)
  .default('tool')
  .describe('Resources and templates have one default');

function defaultTarget({
  organization,
  server,
  kind,
  groupIds,
}: OfTools & { readonly kind: string; readonly groupIds: readonly string[] }): string {
  const ofGroups = groupIds.length > 0 ? `group:${groupIds.join(',')} ` : '';
  return `${ofGroups}kind:${kind} server:${organization}/${server}`;
}

export const toolSetDefault = organizationOperation({
  name: 'tool.set-default',
  doc: 'Set who can use what the server will offer later; what it offers today and has no rule of its own keeps the previous default',
  route: { method: 'PATCH', path: `${toolsPath}/default` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, kind: defaultKindField, ...accessFields }),
  output: z
    .object({ kind: z.enum(defaultKinds), audience: audienceView })
    .meta({ id: 'ToolDefault' }),
  target: defaultTarget,
  async run({ server, kind, ...chosen }, at, ports) {
    const audience = chosenAudience(chosen, 'groupIds');
    await changed(server, { others: { [kind]: audience } }, at, ports);
    const view = await audienceViews(at.organization.id, ports);
    return { kind, audience: view(audience) };
  },
});

/** A rule, or a default, that is not saved yet. */
const plannedRule = z
  .strictObject({
    kind: kindField,
    name: z.string().optional().describe('Omit it for the default of the kind'),
    access: z.enum(['everyone', 'groups', 'default']),
    groupIds: accessFields.groupIds,
  })
  .superRefine(({ kind, name, access }, context) => {
    if (name !== undefined) return checkName({ kind, name }, context);
    const isDefault = defaultKinds.some((one) => one === kind);
    if (isDefault && access !== 'default') return;
    const message = isDefault ? 'is needed for access by default' : 'is needed for a template';
    context.addIssue({ code: 'custom', path: ['name'], message });
  });

const plannedRules = z.array(plannedRule).min(1).max(mostAtOnce);

/** A query sends the rules as JSON. */
const queriedRules = z.preprocess((sent) => {
  if (typeof sent !== 'string') return sent;
  try {
    const rules: unknown = JSON.parse(sent);
    return Array.isArray(rules) ? Object.values(fromWire(rules)) : rules;
  } catch (error) {
    if (error instanceof SyntaxError) return sent;
    throw error;
  }
}, plannedRules);

function plannedChange(rules: z.output<typeof plannedRules>): ToolRulesChange {
  const ofNames: { kind: PrimitiveKind; name: string; audience: Audience | undefined }[] = [];
  const others: Partial<Record<(typeof defaultKinds)[number], Audience>> = {};
  for (const [index, { kind, name, access, groupIds }] of rules.entries()) {
    const field = `rules.${index}.groupIds`;
    if (access === 'default') ofNames.push({ kind, name: name ?? '', audience: undefined });
    else {
      const audience = chosenAudience({ access, groupIds }, field);
      if (name !== undefined) ofNames.push({ kind, name, audience });
      else if (kind !== 'template') others[kind] = audience;
    }
  }
  return { named: ofNames, others };
}

/** The audit entry for one rule, as if the rule had been changed alone. */
function ruleEntry(
  { kind, name, access, groupIds }: z.output<typeof plannedRules>[number],
  at: OfTools,
): AuditNote {
  if (name === undefined) {
    const target = auditTarget(defaultTarget({ ...at, kind, groupIds }));
    return { action: 'tool.set-default', target };
  }
  const target = auditTarget(toolsTarget(at, [{ kind, name, groupIds }]));
  if (access === 'default') return { action: 'tool.remove-rule', target };
  return { action: access === 'groups' ? 'tool.restrict' : 'tool.open', target };
}

export const seenRulesField = z
  .string()
  .max(100)
  .describe('A fingerprint of all rules and defaults of the server, as `tool.list` returns it');

export const toolChangeRules = organizationOperation({
  name: 'tool.change-rules',
  doc: 'Change several rules and defaults at once, if the rules are still those that you have seen; takes effect on the next call',
  route: { method: 'PATCH', path: `${toolsPath}/rules` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, rules: plannedRules, rulesSeen: seenRulesField }),
  output: z
    .object({ rulesSeen: seenRulesField.describe('The fingerprint of the rules as they are now') })
    .meta({ id: 'ChangedToolRules' }),
  target: ({ organization, server }) => `server:${organization}/${server}`,
  async run({ server: name, rules, rulesSeen: seen }, { organization, actor }, ports) {
    const { target } = await ownServer(organization.name, name, ports);
    const outcome = await changeToolRules(ports.db, target.id, plannedChange(rules), seen);
    if (outcome !== 'done') throw refused(outcome);
    for (const rule of rules) {
      const entry = ruleEntry(rule, { organization: organization.name, server: name });
      await noteDone(entry, { organization, actor }, ports);
    }
    const now = await ownServer(organization.name, name, ports);
    return { rulesSeen: rulesSeen(now.target.rules ?? noToolRules) };
  },
});

const affectedCallers = z
  .object({
    count: z.int(),
    callers: z
      .array(
        z.object({
          id: z.string(),
          name: z.string().describe('An e-mail address, or the name of a key or client'),
          email: z.string().nullable().describe('The person of a grant'),
          count: z.int().describe('How many tools, prompts, resources and templates'),
          items: z
            .array(
              z.object({
                kind: z.enum(primitiveKinds),
                name: z.string().describe('Empty for all resources without a rule of their own'),
              }),
            )
            .describe(`The first ${shown.items}`),
        }),
      )
      .describe(`The first ${shown.callers}`),
  })
  .meta({ id: 'AffectedCallers' });
const affected = z.object({
  people: affectedCallers,
  keys: affectedCallers,
  clients: affectedCallers,
  grants: affectedCallers,
});

export const toolPreview = organizationOperation({
  name: 'tool.preview',
  doc: 'Preview which people, keys, clients and grants would gain and lose which tools, without changing anything',
  route: { method: 'GET', path: `${toolsPath}/preview` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, rules: queriedRules.describe('As JSON in the query') }),
  output: z.object({ gains: affected, loses: affected }).meta({ id: 'ToolPreview' }),
  async run({ server: name, rules }, { organization }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const groups = new Set((await listGroups(ports.db, organization.id)).map(({ id }) => id));
    if (rules.some(({ groupIds }) => groupIds.some((id) => !groups.has(id)))) {
      throw refused('unknown-group');
    }
    const now = ports.clock.now();
    const found = await previewToolRules(ports.db, server, plannedChange(rules), now, shown);
    const view = (of: 'gains' | 'loses') => {
      const { people, keys, clients, grants } = found[of];
      return {
        people: toCallersView(people),
        keys: toCallersView(keys),
        clients: toCallersView(clients),
        grants: toCallersView(grants),
      };
    };
    return { gains: view('gains'), loses: view('loses') };
  },
});

function toCallersView({ count, callers }: AffectedCallers): z.output<typeof affectedCallers> {
  return {
    count,
    callers: callers.map(({ id, name, email = null, count: items_, items }) => ({
      id,
      name,
      email,
      count: items_,
      items: items.map(({ kind, name: ofItem }) => ({ kind, name: ofItem })),
    })),
  };
}

export const defaultsView = z
  .object({ tool: audienceView, prompt: audienceView, resource: audienceView })
  .meta({ id: 'ToolDefaults' });

/** The defaults: who can use names without a rule of their own. */
export function defaultViews(
  { target: { rules = noToolRules } }: ServerRecord,
  view: (audience: Audience) => AudienceView,
): z.output<typeof defaultsView> {
  return {
    tool: view(defaultAudience(rules, 'tool')),
    prompt: view(defaultAudience(rules, 'prompt')),
    resource: view(defaultAudience(rules, 'resource')),
  };
}

export const toolRuleOperations: readonly Operation[] = [
  toolRestrict,
  toolOpen,
  toolRemoveRule,
  toolSetDefault,
  toolChangeRules,
  toolPreview,
];
