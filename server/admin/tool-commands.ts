import { json } from '#config/option';
import { UsageError } from '#config/usage-error';
import { callerKinds } from '#db/rights-preview';
import { defaultKinds } from '#db/tool-rules';
import { type PrimitiveKind, primitiveKinds } from '#model/tool-rights';
import type { Option } from '#model/option';
import type { Input } from '#config/read-options';
import type { z } from 'zod';
import { administer, type Command, type CommandPorts } from './command.ts';
import { findGroups } from './groups.ts';
import type { Operation } from './operation.ts';
import { placeOf, type Ports } from './positionals.ts';
import { printMade, printRows } from './print.ts';
import {
  type AudienceView,
  toolOpen,
  toolPreview,
  toolRemoveRule,
  toolRestrict,
  toolSetDefault,
} from './tool-rules.ts';

export const kindOption: Option = {
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
export function kindIn<Kind extends string>(input: Input, kinds: readonly Kind[]): Kind {
  const text = input.text('kind') ?? 'tool';
  const kind = kinds.find((one) => one === text);
  if (kind !== undefined) return kind;
  throw new UsageError(`--kind '${text}' is none of ${kinds.join(', ')}`);
}

/** The names that follow the server, each once. */
export function namesIn({ positionals }: Input): string[] {
  return [...new Set(positionals.slice(1))];
}

/** The groups that were given; none with `--everyone`. @throws {UsageError} unless one of both is given @throws {CommandError} */
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

/** A command that changes the rules of some names, or with `--dry-run` says whom that would affect. */
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
        return printMade(await previewed(at, rules, ports), { json: isJson, out });
      }
      const { items } = await administer(operation, { ...at, ...fields(named, groupIds) }, ports);
      const rows = items.map(({ name, audience }) => ({ kind, name, ...cellsOf(audience) }));
      printRows(rows, { json: isJson, empty: '', out });
      const unknown = items.filter(({ isKnown }) => isKnown === false).map(({ name }) => name);
      if (unknown.length > 0 && !isJson) {
        out(
          `hint: the server has not listed ${unknown.join(', ')} so far; a rule applies once it does`,
        );
      }
    },
  };
}

function cellsOf({ access, groups }: AudienceView) {
  return { access, groups: groups.map(({ id, name }) => name ?? id) };
}

type Place = Awaited<ReturnType<typeof placeOf>>;

async function previewed(at: Place, rules: readonly object[], ports: Ports) {
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
  return { name: `${at.organization}/${at.server}`, gains: lines('gains'), loses: lines('loses') };
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
      return printMade(await previewed(at, [chosen], ports), { json: isJson, out });
    }
    const { audience } = await administer(toolSetDefault, { ...at, ...chosen }, ports);
    const name = `${at.organization}/${at.server}`;
    printMade({ name, kind, ...cellsOf(audience) }, { json: isJson, out });
  },
};

export const toolRuleCommands: readonly Command[] = [
  restrictCommand,
  openCommand,
  removeRuleCommand,
  defaultCommand,
];
