import { z } from 'zod';

import {
  acceptDefinitions,
  correctTool,
  listDefinitions,
  rejectDefinitions,
  type KnownDefinition,
  type ReadDefinition,
} from '#db/definitions';
import { explainRights, type ExplainedRights, type RightsSubject } from '#db/explained-rights';
import { lockTools } from '#db/offered';
import { findUserByEmail } from '#db/people';
import { audienceOf, listNamed, noToolRules, rulesSeen } from '#db/tool-rules';
import { definitionKinds } from '#model/definitions';
import type { ServerRecord } from '#model/endpoints';
import { toolHints, type ToolCorrection, type ToolHint } from '#model/tool-correction';
import { fields, words } from './fields.ts';
import {
  actorName,
  type AdministrationPorts,
  mayDo,
  organizationOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { ofServer, ownServer } from './paths.ts';
import { AdministrationRefusal, conflict, forbidden, notFound } from './refusal.ts';
import { namesShownTo } from './shown-names.ts';
import {
  audienceView,
  audienceViews,
  defaultViews,
  defaultsView,
  noteEach,
  seenRulesField,
  toolsPath,
  toolsTarget,
} from './tool-rules.ts';
import { primitiveName } from './tool-selection.ts';

const digest = z.string().max(100).describe('SHA-256 of the definition');
const longestTemplate = 2000;

/** The kinds that views have. Resources are not listed by name: only rules name them. */
const kinds = [...definitionKinds, 'resource'] as const;

const hintsView = z
  .object({
    readOnly: z.boolean().nullable(),
    destructive: z.boolean().nullable(),
    idempotent: z.boolean().nullable(),
    openWorld: z.boolean().nullable(),
  })
  .describe('Null: it does not say')
  .meta({ id: 'ToolHints' });
type HintsView = z.output<typeof hintsView>;

/** The names of hints in views and input. */
const hintFields = {
  readOnlyHint: 'readOnly',
  destructiveHint: 'destructive',
  idempotentHint: 'idempotent',
  openWorldHint: 'openWorld',
} as const satisfies Record<ToolHint, keyof HintsView>;

const toolStatuses = [
  /** An administrator accepted its definition. */
  'accepted',
  /** Offered without a review. */
  'offered',
  'new',
  'changed',
  'rejected',
  /** Named by a rule, or hidden, but not listed so far. */
  'unlisted',
] as const;

const toolViewSchema = z
  .object({
    kind: z.enum(kinds),
    name: z.string().describe('For a resource its URI, for a template its URI template'),
    title: z.string().nullable().describe('As the server says it'),
    status: z
      .enum(toolStatuses)
      .describe(
        'Whether its definition was accepted, is offered without a review, waits for one as new or changed, or was rejected; unlisted: the server has not listed it so far',
      ),
    isHidden: z.boolean(),
    isWithheld: z.boolean().describe('Whether no one can use it until its definition is accepted'),
    accepted: z
      .string()
      .nullable()
      .describe('The accepted definition, as JSON; null if none was accepted'),
    acceptedDigest: digest.nullable(),
    acceptedAt: fields.maybeAt,
    acceptedBy: z
      .string()
      .nullable()
      .describe('The actor; null if it was offered without a review'),
    changed: z
      .object({
        seen: z.string().describe('The current definition, as JSON'),
        digest,
        changedAt: fields.at,
        rejectedAt: fields.maybeAt,
        rejectedBy: z.string().nullable(),
      })
      .nullable()
      .describe('Null if the current definition is the accepted one'),
    hints: hintsView.nullable().describe('What the server says about a tool; null if not known'),
    shownHints: hintsView.nullable().describe('What assistants see of that, after corrections'),
    correction: z
      .object({
        title: z.string().nullable(),
        description: z.string().nullable(),
        hints: hintsView,
        at: fields.at,
        by: z.string(),
      })
      .nullable()
      .describe(
        'What assistants see instead of what the server says; null in it: as the server says',
      ),
    audience: audienceView
      .nullable()
      .describe('Who can use it; null for instructions, and for a role that cannot see groups'),
    allowed: z.boolean().nullable().describe('Whether the subject of `as` can use it'),
    reason: z.string().nullable().describe('Why, or why not'),
  })
  .meta({ id: 'Tool' });

/** The view of something that a server offers, or of its instructions. */
export type ToolView = z.output<typeof toolViewSchema>;

const listing = z.object({
  changedTools: z.enum(['flag', 'withhold']),
  newTools: z.enum(['offer', 'review']),
  defaults: defaultsView.nullable().describe('Who can use what has no rule of its own'),
  rulesSeen: seenRulesField
    .nullable()
    .describe(
      'A fingerprint of all rules and defaults, for changing them if they are still the same; null for a role that cannot see groups',
    ),
  excluded: z
    .string()
    .nullable()
    .describe('Why the subject of `as` cannot use the server at all; null if it can'),
  items: z.array(toolViewSchema),
});

export const toolList = organizationOperation({
  name: 'tool.list',
  doc: 'List what a server offers, by kind and name, with the state of its review and who can use it; to viewers and members, only what they can use themselves. With `as`, what a person, key, client or grant can use, and why',
  route: { method: 'GET', path: toolsPath },
  permission: 'server.read',
  input: z.strictObject({
    ...ofServer,
    as: z
      .string()
      .min(1)
      .max(2000)
      .optional()
      .describe('The e-mail address of a member, or the id of a key, a client or a grant'),
  }),
  output: listing,
  async run({ server: name, as }, { organization, role, actor }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const maySeeGroups = mayDo(role, 'people.read');
    if (as !== undefined && !maySeeGroups) {
      const why = `your role in ${organization.name} (${role}) does not allow to see what others can use`;
      throw forbidden(why);
    }
    const { changedTools, newTools } = server.target;
    const explained = as === undefined ? undefined : await explainedAs(as, server, ports);
    const view = maySeeGroups ? await audienceViews(organization.id, ports) : undefined;
    const items = await toolViews(server, { view, explained }, ports);
    const isShown = await namesShownTo({ role, actor }, server, ports);
    return {
      changedTools,
      newTools,
      defaults: view ? defaultViews(server, view) : null,
      rulesSeen: view ? rulesSeen(server.target.rules ?? noToolRules) : null,
      excluded: explained?.excluded ?? null,
      items: items.filter(
        ({ kind, name: own }) => kind === 'instructions' || isShown({ kind, name: own }),
      ),
    };
  },
});

/** @throws {AdministrationRefusal} `not_found` */
async function explainedAs(
  as: string,
  server: ServerRecord,
  { db, clock }: WithDbAndClock,
): Promise<ExplainedRights> {
  const subject = await subjectOf(as, db);
  const found = subject && (await explainRights(db, server, subject, clock.now()));
  if (found) return found;
  throw notFound(`${subject?.type ?? 'person'} '${as}'`);
}

async function subjectOf(
  as: string,
  db: AdministrationPorts['db'],
): Promise<RightsSubject | undefined> {
  if (as.startsWith('key_')) return { type: 'key', keyId: as };
  if (as.startsWith('grant_')) return { type: 'grant', grantId: as };
  // The id of a client may be the URL of a document, which may contain an @.
  if (as.startsWith('client_') || /^https?:/.test(as)) return { type: 'client', clientId: as };
  const person = await findUserByEmail(db, as);
  return person && { type: 'person', userId: person.id };
}

interface Shown {
  /** Absent for a role that cannot see groups. */
  readonly view: Awaited<ReturnType<typeof audienceViews>> | undefined;
  readonly explained?: ExplainedRights | undefined;
}

/** The views of everything that is known of a server, or that its rules and hidden tools name. */
async function toolViews(
  server: ServerRecord,
  { view, explained }: Shown,
  { db }: WithDb,
): Promise<ToolView[]> {
  const { target } = server;
  const { rules = noToolRules, hiddenTools, offered } = target;
  const definitions = new Map(
    (await listDefinitions(db, target.id)).map((one) => [keyOf(one), one]),
  );
  const verdicts = new Map(explained?.items.map((one) => [keyOf(one), one]));
  const shown = (one: ToolView['kind'], name: string): ToolView => {
    const key = keyOf({ kind: one, name });
    const verdict = verdicts.get(key);
    const primitive = one === 'instructions' ? undefined : { kind: one, name };
    return {
      kind: one,
      name,
      ...definitionView(definitions.get(key)),
      isHidden: one === 'tool' && hiddenTools.includes(name),
      isWithheld: primitive !== undefined && (offered.withheld[primitive.kind]?.has(name) ?? false),
      audience: view && primitive ? view(audienceOf(rules, primitive)) : null,
      allowed: verdict?.allowed ?? null,
      reason: verdict?.reason ?? null,
    };
  };
  const named = await listNamed(db, target, rules);
  const instructions = [...definitions.values()].filter(({ kind }) => kind === 'instructions');
  return [...named, ...instructions].map(({ kind, name }) => shown(kind, name));
}

function keyOf({ kind, name }: { readonly kind: ToolView['kind']; readonly name: string }): string {
  return `${kind} ${name}`;
}

type OfDefinition = Omit<
  ToolView,
  'kind' | 'name' | 'isHidden' | 'isWithheld' | 'audience' | 'allowed' | 'reason'
>;

function definitionView(known: KnownDefinition | undefined): OfDefinition {
  const { accepted, seen, rejected, correction } = known ?? {};
  const current = seen ?? accepted;
  const hints =
    current?.annotations === undefined ? null : hintsOf(JSON.parse(current.annotations));
  const corrected = hintsOf(correction?.correction.annotations);
  return {
    title: titleOf(current?.text),
    status: known ? statusOf(known) : 'unlisted',
    accepted: accepted?.text ?? null,
    acceptedDigest: accepted?.digest ?? null,
    acceptedAt: known?.acceptedAt ?? null,
    acceptedBy: known?.acceptedBy ?? null,
    changed: seen
      ? {
          seen: seen.text,
          digest: seen.digest,
          changedAt: known?.changedAt ?? 0,
          rejectedAt: rejected?.at ?? null,
          rejectedBy: rejected?.by ?? null,
        }
      : null,
    hints,
    shownHints: correction || hints ? merged(corrected, hints) : null,
    correction: correction
      ? {
          title: correction.correction.title ?? null,
          description: correction.correction.description ?? null,
          hints: corrected,
          at: correction.at,
          by: correction.by,
        }
      : null,
  };
}

function statusOf({ accepted, acceptedBy, seen, rejected }: KnownDefinition): ToolView['status'] {
  if (rejected) return 'rejected';
  if (seen) return accepted ? 'changed' : 'new';
  return acceptedBy === undefined ? 'offered' : 'accepted';
}

function hintsOf(annotations: unknown): HintsView {
  const hint = (name: ToolHint) => {
    const value: unknown = Reflect.get(Object(annotations), name);
    return typeof value === 'boolean' ? value : null;
  };
  return {
    readOnly: hint('readOnlyHint'),
    destructive: hint('destructiveHint'),
    idempotent: hint('idempotentHint'),
    openWorld: hint('openWorldHint'),
  };
}

function merged(corrected: HintsView, listed: HintsView | null): HintsView {
  return {
    readOnly: corrected.readOnly ?? listed?.readOnly ?? null,
    destructive: corrected.destructive ?? listed?.destructive ?? null,
    idempotent: corrected.idempotent ?? listed?.idempotent ?? null,
    openWorld: corrected.openWorld ?? listed?.openWorld ?? null,
  };
}

/** The title in a definition. A very long definition is stored truncated, so it is not valid JSON. */
function titleOf(text: string | undefined): string | null {
  try {
    const described: unknown = JSON.parse(text ?? '');
    const title: unknown = Reflect.get(Object(described), 'title');
    return typeof title === 'string' ? title : null;
  } catch {
    return null;
  }
}

const reviewed = z
  .array(
    z.strictObject({
      kind: z.enum(definitionKinds).default('tool'),
      name: z.string().min(1).max(longestTemplate),
      digest: digest.describe('SHA-256 of the definition that you read'),
    }),
  )
  .min(1)
  .max(1_000);

const named = z.array(z.object({ kind: z.enum(definitionKinds), name: z.string() }));

function namesOf(all: readonly ReadDefinition[]) {
  return all.map(({ kind, name }) => ({ kind, name }));
}

/** The names of the definitions that were not decided about. */
function others(all: readonly ReadDefinition[], decided: readonly ReadDefinition[]) {
  const keys = new Set(decided.map(keyOf));
  return namesOf(all.filter((one) => !keys.has(keyOf(one))));
}

function changedSince(): AdministrationRefusal {
  return conflict('these definitions have changed since you read them; read the list again');
}

export const toolAccept = organizationOperation({
  name: 'tool.accept',
  doc: 'Accept the current definitions of tools, prompts, templates or the instructions; identify each by the digest of the definition that you read',
  route: { method: 'POST', path: `${toolsPath}/accept` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, tools: reviewed }),
  output: z
    .object({
      accepted: named,
      skipped: named.describe('Those that have changed since they were read'),
    })
    .meta({ id: 'AcceptedTools' }),
  target: ({ tools, ...at }) => toolsTarget(at, tools),
  async run({ server: name, tools }, at, ports) {
    const { target } = await ownServer(at.organization.name, name, ports);
    const decision = { by: actorName(at.actor), at: ports.clock.now() };
    const accepted = await acceptDefinitions(ports.db, target.id, tools, decision);
    if (accepted.length === 0) throw changedSince();
    await noteEach('tool.accept', name, accepted, at, ports);
    return { accepted: namesOf(accepted), skipped: others(tools, accepted) };
  },
});

export const toolReject = organizationOperation({
  name: 'tool.reject',
  doc: 'Reject current definitions that are not accepted; no one can use them until the accepted one is listed again, or another one is accepted',
  route: { method: 'POST', path: `${toolsPath}/reject` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofServer, tools: reviewed }),
  output: z
    .object({
      rejected: named,
      skipped: named.describe('Those that have changed since they were read, or are accepted'),
    })
    .meta({ id: 'RejectedTools' }),
  target: ({ tools, ...at }) => toolsTarget(at, tools),
  async run({ server: name, tools }, at, ports) {
    const { target } = await ownServer(at.organization.name, name, ports);
    const decision = { by: actorName(at.actor), at: ports.clock.now() };
    const rejected = await rejectDefinitions(ports.db, target.id, tools, decision);
    if (rejected.length === 0) throw changedSince();
    await noteEach('tool.reject', name, rejected, at, ports);
    return { rejected: namesOf(rejected), skipped: others(tools, rejected) };
  },
});

const hintField = (doc: string) =>
  z.boolean().nullable().optional().describe(`${doc}; null: as the server says`);

export const toolCorrect = organizationOperation({
  name: 'tool.correct',
  doc: 'Correct what assistants see of a tool; takes effect on the next list, omitted fields keep their correction, and null removes one',
  route: { method: 'PATCH', path: `${toolsPath}/correction` },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    name: primitiveName,
    title: words(200).min(1).nullable().optional(),
    description: z.string().trim().min(1).max(10_000).nullable().optional(),
    readOnly: hintField('Whether it only reads'),
    destructive: hintField('Whether it may delete or overwrite something'),
    idempotent: hintField('Whether repeating a call changes nothing more'),
    openWorld: hintField('Whether it reaches systems outside'),
  }),
  output: toolViewSchema,
  target: ({ organization, server, name }) =>
    toolsTarget({ organization, server }, [{ kind: 'tool', name }]),
  async run({ server: serverName, name, ...change }, { organization, actor, role }, ports) {
    const server = await ownServer(organization.name, serverName, ports);
    const { id } = server.target;
    const decision = { by: actorName(actor), at: ports.clock.now() };
    // Without this lock, two people who correct different fields at once would remove each other's correction.
    await lockTools(ports.db, id);
    const known = (await listDefinitions(ports.db, id)).find(
      (one) => one.kind === 'tool' && one.name === name,
    );
    const missing = `tool '${name}' of ${organization.name}/${serverName}`;
    if (!known) throw notFound(missing);
    const correction = changedCorrection(known.correction?.correction ?? {}, change);
    if (!(await correctTool(ports.db, id, name, correction, decision))) throw notFound(missing);
    const view = mayDo(role, 'people.read')
      ? await audienceViews(organization.id, ports)
      : undefined;
    const all = await toolViews(server, { view }, ports);
    const tool = all.find((one) => one.kind === 'tool' && one.name === name);
    if (!tool) throw notFound(missing);
    return tool;
  },
});

type CorrectionChange = Omit<z.output<typeof toolCorrect.input>, keyof typeof ofServer | 'name'>;

/** @throws {AdministrationRefusal} `invalid` when nothing is changed */
function changedCorrection(
  { title, description, annotations = {} }: ToolCorrection,
  change: CorrectionChange,
): ToolCorrection {
  const given = [
    change.title,
    change.description,
    ...toolHints.map((hint) => change[hintFields[hint]]),
  ];
  if (given.every((value) => value === undefined)) {
    const problem = 'correct at least one field';
    throw new AdministrationRefusal('invalid', problem, { fields: [{ field: '', problem }] });
  }
  const hints = toolHints.flatMap((hint) => {
    const chosen = change[hintFields[hint]];
    const value = chosen === undefined ? annotations[hint] : chosen;
    return typeof value === 'boolean' ? [[hint, value] as const] : [];
  });
  const text = (chosen: string | null | undefined, before: string | undefined) =>
    chosen === undefined ? before : (chosen ?? undefined);
  return {
    title: text(change.title, title),
    description: text(change.description, description),
    annotations: Object.fromEntries(hints),
  };
}

export const toolOperations: readonly Operation[] = [toolList, toolAccept, toolReject, toolCorrect];
