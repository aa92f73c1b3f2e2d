import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { callerKinds } from '#db/rights-preview';
import { defaultKinds } from '#db/tool-rules';
import { type DefinitionKind, definitionKinds } from '#model/definitions';
import { type PrimitiveKind, primitiveKinds } from '#model/tool-rights';
import type { Option } from '#model/option';
import type { Input } from '#config/read-options';
import type { z } from 'zod';
import { administer, type Command, type CommandPorts, optionName } from './command.ts';
import { findGroups } from './groups.ts';
import type { Operation } from './operation.ts';
import { placeOf, type Ports } from './positionals.ts';
import { affectedCell, type Cell, type Out, printMade, printRows } from './print.ts';
import {
  type AudienceView,
  toolOpen,
  toolPreview,
  toolRemoveRule,
  toolRestrict,
  toolSetDefault,
} from './tool-rules.ts';
import { toolAccept, toolCorrect, toolList, toolReject, type ToolView } from './tools.ts';
import { findUnlisted } from './unlisted-names.ts';

const kindOption: Option = {
  name: 'kind',
  value: 'KIND',
  doc: `what the names are of: ${primitiveKinds.join(', ')} (default: tool)`,
};
const groupOption: Option = {
  name: 'group',
  value: 'GROUP',
  repeated: true,
  doc: 'a group whose members can use it',
};
const dryRun: Option = {
  name: 'dry-run',
  doc: 'print who would gain and lose what, without changing anything',
};

/** @throws {UsageError} */
function kindIn<Kind extends string>(input: Input, kinds: readonly Kind[]): Kind {
  const text = input.text('kind') ?? 'tool';
  const kind = kinds.find((one) => one === text);
  if (kind !== undefined) return kind;
  throw new UsageError(`--kind '${text}' is none of ${kinds.join(', ')}`);
}

/** The names that follow the server, each once. */
function namesIn({ positionals }: Input): string[] {
  return [...new Set(positionals.slice(1))];
}

/** The groups that were given; none with `--everyone`. @throws {UsageError} unless `--group` or `--everyone` is given @throws {CommandError} */
async function chosenGroups(input: Input, organization: string, ports: Ports): Promise<string[]> {
  const names = input.list('group');
  if (input.flag('everyone') === names.length > 0) {
    throw new UsageError('give --group, or --everyone, but not both');
  }
  return findGroups(organization, names, ports);
}

type Access = 'everyone' | 'groups' | 'default';

interface RuleCommand {
  readonly words: string;
  readonly doc: string;
  readonly options?: readonly Option[];
  readonly access: Access;
  readonly operation: Operation<z.ZodObject, typeof toolOpen.output>;
  /** The fields of the operation for these names. */
  readonly fields: (
    names: readonly { readonly kind: PrimitiveKind; readonly name: string }[],
    groupIds: readonly string[],
  ) => object;
}

/** A command that changes the rules of some names, or with `--dry-run` prints which callers that would affect. */
function ruleCommand({
  words,
  doc,
  options = [],
  access,
  operation,
  fields,
}: RuleCommand): Command {
  return {
    words,
    positionals: ['ORG/SERVER', 'NAME…'],
    options: [...options, kindOption, dryRun, json],
    doc,
    async run(input, { out, ...ports }) {
      const at = await placeOf(input.positionals[0] ?? '', ports);
      const kind = kindIn(input, primitiveKinds);
      const named = namesIn(input).map((name) => ({ kind, name }));
      const isOfGroups = access === 'groups';
      const groupIds = isOfGroups
        ? await findGroups(at.organization, input.list('group'), ports)
        : [];
      const isJson = input.flag('json');
      if (input.flag('dry-run')) {
        const rules = named.map(({ name }) => ({ kind, name, access, groupIds }));
        await printPreview(at, rules, { json: isJson, ...ports, out });
      } else {
        const change = { ...at, ...fields(named, groupIds) };
        const { items } = await administer(operation, change, ports);
        const rows = items.map(({ name, audience }) =>
          Object.assign({ kind, name }, cellsOf(audience)),
        );
        printRows(rows, { json: isJson, empty: '', out });
      }
      if (isJson || access === 'default' || kind === 'resource') return;
      const { unlisted } = await findUnlisted(at, namesIn(input), ports, kind);
      if (unlisted.length === 0) return;
      out(
        `hint: the server has not listed ${unlisted.join(', ')} so far; a rule applies once it does`,
      );
    },
  };
}

function cellsOf({ access, groups }: AudienceView) {
  return { access, groups: groups.map(({ id, name }) => name ?? id) };
}

type Place = Awaited<ReturnType<typeof placeOf>>;

async function printPreview(
  at: Place,
  rules: readonly object[],
  { json: isJson, out, ...ports }: Ports & { json: boolean; out: Out },
): Promise<void> {
  const preview = await administer(toolPreview, { ...at, rules }, ports);
  const lines = (of: 'gains' | 'loses') =>
    callerKinds.flatMap((kind) => {
      const { count, callers } = preview[of][kind];
      const more = count - callers.length;
      const named = callers.map(({ name, email, items, count: all }) => {
        const whose = email === null ? name : `${name} for ${email}`;
        const what = items.map((item) => item.name || 'other resources').join(', ');
        const others = all > items.length ? `, and ${all - items.length} more` : '';
        return `${callerWords[kind]} ${whose}: ${what}${others}`;
      });
      return more > 0 ? named.concat(`and ${more} more ${kind}`) : named;
    });
  const facts = {
    name: `${at.organization}/${at.server}`,
    gains: affectedCell(lines('gains'), { json: isJson }),
    loses: affectedCell(lines('loses'), { json: isJson }),
  };
  printMade(facts, { json: isJson, out });
}

const callerWords = { people: 'person', keys: 'key', clients: 'client', grants: 'application' };

const restrictCommand = ruleCommand({
  words: 'tool restrict',
  doc: 'let only the members of groups use a tool; takes effect on the next call',
  options: [{ ...groupOption, required: true }],
  access: 'groups',
  operation: toolRestrict,
  fields: (named, groupIds) => ({ rules: named.map((one) => Object.assign({ groupIds }, one)) }),
});

const openCommand = ruleCommand({
  words: 'tool open',
  doc: 'let everyone who can use the server use a tool; takes effect on the next call',
  access: 'everyone',
  operation: toolOpen,
  fields: (tools) => ({ tools }),
});

const removeRuleCommand = ruleCommand({
  words: 'tool remove-rule',
  doc: 'remove the rule of a tool, so that the default applies',
  access: 'default',
  operation: toolRemoveRule,
  fields: (tools) => ({ tools }),
});

const defaultCommand: Command = {
  words: 'tool default',
  positionals: ['ORG/SERVER'],
  options: [
    groupOption,
    { name: 'everyone', doc: 'let everyone use it who can use the server' },
    { ...kindOption, doc: `what it is for: ${defaultKinds.join(', ')} (default: tool)` },
    dryRun,
    json,
  ],
  doc: 'set who can use the tools that a server will offer later',
  async run(input, { out, ...ports }: CommandPorts) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const kind = kindIn(input, defaultKinds);
    const groupIds = await chosenGroups(input, at.organization, ports);
    const access = groupIds.length > 0 ? 'groups' : 'everyone';
    const chosen = { kind, access, groupIds };
    const isJson = input.flag('json');
    if (input.flag('dry-run')) {
      return printPreview(at, [chosen], { json: isJson, ...ports, out });
    }
    const { audience } = await administer(toolSetDefault, { ...at, ...chosen }, ports);
    const name = `${at.organization}/${at.server}`;
    printMade({ name, kind, ...cellsOf(audience) }, { json: isJson, out });
  },
};

const listedCommand: Command = {
  words: 'tool list',
  positionals: ['ORG/SERVER'],
  options: [
    {
      name: 'as',
      value: 'EMAIL|KEY_ID|CLIENT_ID|GRANT_ID',
      doc: 'show what this member, key, client or consent can use, and why',
    },
    json,
  ],
  doc: 'list what a server offers, the state of its review, and who can use it',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const as = input.text('as');
    const isJson = input.flag('json');
    const { items, excluded } = await administer(toolList, { ...at, as }, ports);
    const empty = 'nothing seen yet: tools appear here once someone has used the server';
    if (as === undefined) {
      return printRows(items.map(toolRow), { json: isJson, empty, out });
    }
    const rows = items
      .filter(({ allowed }) => allowed !== null)
      .map(({ kind, name, allowed, reason }) => ({ kind, name, allowed, reason }));
    printRows(rows, { json: isJson, empty, out });
    if (excluded !== null && !isJson) out(`hint: ${as} cannot use this server: ${excluded}`);
  },
};

function toolRow(tool: ToolView): Record<string, Cell> {
  const { kind, name, status, audience, isHidden, isWithheld, shownHints, changed } = tool;
  const groups = audience?.groups.map((group) => group.name ?? group.id) ?? [];
  return {
    kind,
    name,
    status,
    hidden: isHidden,
    withheld: isWithheld,
    read_only: shownHints?.readOnly ?? null,
    access: audience?.access ?? null,
    groups,
    accepted_at: tool.acceptedAt,
    accepted_by: tool.acceptedBy,
    changed_at: changed?.changedAt ?? null,
    digest: changed?.digest ?? tool.acceptedDigest,
  };
}

interface Reviewed {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly digest: string;
}

/** The statuses that `--all` selects: an offered definition can be accepted, so that its annotations count. */
const statusesOfAll: Readonly<Record<'accept' | 'reject', readonly ToolView['status'][]>> = {
  accept: ['offered', 'new', 'changed'],
  reject: ['new', 'changed'],
};

/** The definitions to decide about: those with the given names, or all with `--all`. @throws {UsageError} @throws {CommandError} */
async function chosenDefinitions(
  verb: 'accept' | 'reject',
  input: Input,
  at: Place,
  ports: Ports,
): Promise<readonly Reviewed[]> {
  const names = namesIn(input);
  const isAll = input.flag('all');
  if (isAll === names.length > 0) throw new UsageError('give names, or --all, but not both');
  const wanted = kindIn(input, definitionKinds);
  const { items } = await administer(toolList, at, ports);
  const chosen = items.flatMap(({ kind, name, status, changed, acceptedDigest }) => {
    const digest = changed?.digest ?? acceptedDigest;
    if (kind === 'resource' || digest === null) return [];
    const isNamed = kind === wanted && names.includes(name);
    const isChosen = isAll ? statusesOfAll[verb].includes(status) : isNamed;
    return isChosen ? [{ kind, name, digest }] : [];
  });
  const server = `${at.organization}/${at.server}`;
  const missing = names.filter((name) => !chosen.some((one) => one.name === name));
  if (chosen.length > 0 && missing.length === 0) return chosen;
  const what = isAll
    ? `there is nothing to ${verb} at ${server}`
    : `no ${wanted} of ${server} is called ${missing.join(', ')}`;
  throw new CommandError(what, `latchkey-server tool list ${server}`);
}

/** A command that accepts or rejects definitions that the person who types it has read. */
function reviewCommand(
  verb: 'accept' | 'reject',
  { doc, ofAll }: { readonly doc: string; readonly ofAll: string },
  decide: (
    definitions: readonly Reviewed[],
    at: Place,
    ports: Ports,
  ) => Promise<{ readonly decided: readonly Primitive[]; readonly skipped: readonly Primitive[] }>,
): Command {
  return {
    words: `tool ${verb}`,
    positionals: ['ORG/SERVER', '[NAME…]'],
    options: [
      { name: 'all', doc: ofAll },
      {
        ...kindOption,
        doc: `what the names are of: ${definitionKinds.join(', ')} (default: tool)`,
      },
      json,
    ],
    doc,
    async run(input, { out, ...ports }) {
      const at = await placeOf(input.positionals[0] ?? '', ports);
      const all = await chosenDefinitions(verb, input, at, ports);
      const done: Primitive[] = [];
      const skipped: Primitive[] = [];
      for (let from = 0; from < all.length; from += mostAtOnce) {
        const part = await decide(all.slice(from, from + mostAtOnce), at, ports);
        done.push(...part.decided);
        skipped.push(...part.skipped);
      }
      const name = `${at.organization}/${at.server}`;
      const facts = { name, [`${verb}ed`]: textsOf(done), skipped: textsOf(skipped) };
      printMade(facts, { json: input.flag('json'), out });
    },
  };
}

const mostAtOnce = 1000;

interface Primitive {
  readonly kind: DefinitionKind;
  readonly name: string;
}

function textsOf(all: readonly Primitive[]): string[] {
  return all.map(({ kind, name }) => (kind === 'tool' ? name : `${kind} ${name}`));
}

const acceptCommand = reviewCommand(
  'accept',
  {
    doc: 'accept the current definitions of tools',
    ofAll: 'everything that no administrator has accepted so far',
  },
  async (tools, at, ports) => {
    const { accepted: decided, skipped } = await administer(toolAccept, { ...at, tools }, ports);
    return { decided, skipped };
  },
);

const rejectCommand = reviewCommand(
  'reject',
  {
    doc: 'reject the current definitions of tools; no one can use them until you accept another one',
    ofAll: 'everything that is new or has changed',
  },
  async (tools, at, ports) => {
    const { rejected: decided, skipped } = await administer(toolReject, { ...at, tools }, ports);
    return { decided, skipped };
  },
);

const hintDocs = {
  readOnly: 'whether it only reads',
  destructive: 'whether it may delete or overwrite something',
  idempotent: 'whether repeating a call changes nothing more',
  openWorld: 'whether it reaches systems outside',
} as const satisfies Record<keyof NonNullable<ToolView['hints']>, string>;
const hintOptions = Object.entries(hintDocs).map(([hint, doc]) => {
  return { hint, name: optionName(hint), value: 'YES|NO|AS-SERVER', doc };
});

const correctCommand: Command = {
  words: 'tool correct',
  positionals: ['ORG/SERVER', 'NAME'],
  options: [
    {
      name: 'title',
      value: 'TITLE',
      doc: 'the title that assistants see; empty: as the server says',
    },
    {
      name: 'description',
      value: 'TEXT',
      doc: 'the description that assistants see; empty: as the server says',
    },
    ...hintOptions,
    json,
  ],
  doc: 'correct what assistants see of a tool; omitted options keep their correction',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const texts = (['title', 'description'] as const).flatMap((name) => {
      const text = input.text(name);
      return text === undefined ? [] : [[name, text === '' ? null : text] as const];
    });
    const hints = hintOptions.flatMap(({ hint, name: option }) => {
      const text = input.text(option);
      return text === undefined ? [] : [[hint, hintIn(text, option)] as const];
    });
    const name = input.positionals[1] ?? '';
    const change = { ...at, name, ...Object.fromEntries([...texts, ...hints]) };
    const tool = await administer(toolCorrect, change, ports);
    const shown = tool.shownHints;
    const facts = {
      name,
      title: tool.correction?.title ?? tool.title,
      description: tool.correction?.description ?? null,
      read_only: shown?.readOnly ?? null,
      destructive: shown?.destructive ?? null,
      idempotent: shown?.idempotent ?? null,
      open_world: shown?.openWorld ?? null,
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** @throws {UsageError} */
function hintIn(text: string, option: string): boolean | null {
  if (text === 'as-server') return null;
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new UsageError(`--${option} '${text}' is none of yes, no and as-server`);
}

export const toolCommands: readonly Command[] = [
  listedCommand,
  acceptCommand,
  rejectCommand,
  correctCommand,
  restrictCommand,
  openCommand,
  removeRuleCommand,
  defaultCommand,
];
