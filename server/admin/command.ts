import { isIP } from 'node:net';

import type { z } from 'zod';

import type { PasswordHashing } from '#accounts/passwords';
import { shellWord } from '#model/shell-word';
import { everyRefusal } from '#audit/counted-refusals';
import type { Awaitable } from '#model/awaitable';
import type { EpochSeconds } from '#model/clock';
import { mailServerUrl } from '#mail/mail-session';
import { json } from '#config/option';
import { type Option } from '#model/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { hostAndPort, isHostFault } from '#outbound/checked-addresses';
import { surfaces, type FieldOption } from './fields.ts';
import { operator, perform, type Operation } from './operation.ts';
import { requireUser, type Positional, type Ports, type Given } from './positionals.ts';
import { printMade, printRows, type Cell } from './print.ts';
import { AdministrationRefusal, isConflict } from './refusal.ts';
import { wireName } from './wire-names.ts';

export interface CommandPorts extends Ports {
  /** Writes a line to stdout. */
  readonly out: (line: string) => void;
  /** Writes a line to stderr, so that a program that reads stdout does not get it. */
  readonly tell: (line: string) => void;
  /** Reads a new password, typed twice in a terminal or piped in once. */
  readonly readPassword: () => Promise<{ password: string; repeated: string }>;
  readonly hashing: Pick<PasswordHashing, 'hash'>;
  /** Asks the MCP server at a URL that the operator gave, once, for a few seconds. Returns why the check failed, as a sentence. */
  readonly tryUrl: (
    url: string,
    headers: Readonly<Record<string, string>>,
  ) => Promise<string | undefined>;
}

/** The syntax and description of a command. */
export interface CommandFacts {
  readonly words: string;
  /** The names of the positional arguments, as displayed in the help. */
  readonly positionals: readonly string[];
  readonly options: readonly Option[];
  readonly doc: string;
}

/** An administrative command: `latchkey-server client create …`. */
export interface Command extends CommandFacts {
  /** Whether it only prints, so that it ends when the reader of stdout disconnects. */
  readonly endsWithReader?: boolean;
  readonly run: (input: Input, ports: CommandPorts) => Promise<void>;
}

/**
 * Performs an operation as the operator. It is audited like an operation of any other actor. `conflict` returns a hint for
 * when the current state does not allow the operation.
 *
 * @throws {UsageError} when the input is invalid
 * @throws {CommandError} when the operation is refused
 */
export async function administer<Fields extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Fields, Output>,
  input: Given,
  { stores, clock }: Ports,
  conflict?: () => Awaitable<string | undefined>,
): Promise<z.output<Output>> {
  try {
    return await perform(operation, input, operator, {
      ...stores,
      clock,
      refusals: everyRefusal({ db: stores.db, clock }),
    });
  } catch (refusal) {
    if (!(refusal instanceof AdministrationRefusal)) throw refusal;
    if (refusal.code === 'invalid') {
      throw new UsageError(refusal.message, hostHint(refusal, input), { cause: refusal });
    }
    const hint = isConflict(refusal) ? await conflict?.() : undefined;
    throw new CommandError(refusal.message, hint, { cause: refusal });
  }
}

/** The hint for an input that was refused because its host cannot be used. */
function hostHint({ fields }: AdministrationRefusal, input: Given): string | undefined {
  const found = fields.find(({ problem }) => isHostFault(problem));
  const text = found && input[found.field];
  if (typeof text !== 'string') return undefined;
  const { port } = input;
  // The host of a mail server is a field of its own, beside its port.
  const url = typeof port === 'number' ? mailServerUrl({ host: text, port }) : URL.parse(text);
  const host = url?.hostname ? hostAndPort(url) : text;
  const allow = `if it is in your network: latchkey-server outbound allow ${shellWord(host)}`;
  const name = (url?.hostname || text).replace(/^\[(.*)\]$/, '$1');
  if (isIP(name) !== 0) return allow;
  return `check the spelling, and DNS with latchkey-server doctor --reach ${name}; ${allow}`;
}

/** The columns to print: fields under their wire names or, under names of their own, fields or computed values. */
type Printed<Row> = PrintedField<Row> | Readonly<Record<string, PrintedValue<Row>>>;
type PrintedField<Row> = keyof Row & string;
type PrintedValue<Row> =
  | PrintedField<Row>
  | ((row: Row, at: { readonly given: Given; readonly now: EpochSeconds }) => unknown);

interface DerivedCommand<Row> {
  readonly words: string;
  readonly doc: string;
  readonly positionals?: readonly Positional[];
  /** Input that is always added. */
  readonly always?: Given;
  /** Options in addition to those of the operation's fields and `--json`. */
  readonly options?: readonly Option[];
  readonly prints: readonly Printed<Row>[];
}

/**
 * A command that performs one operation: its options are the fields of the input that have one, and it prints fields of
 * the output.
 */
export function command<
  Fields extends z.ZodObject,
  Output extends z.ZodObject,
  Other extends z.ZodObject = Output,
>(
  operation: Operation<Fields, Output>,
  {
    prints,
    secret,
    instead,
    failed,
    hint,
    conflict,
    asks,
    requiresOption = false,
    ...derived
  }: DerivedCommand<z.output<Output> | z.output<Other>> & {
    /** The field of the output that contains a secret, which is displayed only once. */
    readonly secret?: string;
    /** Selects another operation, depending on what the arguments name. */
    readonly instead?: (given: Given) => Operation<z.ZodObject, Other> | undefined;
    /** Why the command failed although the operation was performed. */
    readonly failed?: (output: z.output<Output> | z.output<Other>) => string | undefined;
    /** A next step for the user, printed after the result. */
    readonly hint?: (
      output: z.output<Output> | z.output<Other>,
      given: Given,
      ports: Ports,
    ) => Awaitable<string | undefined>;
    /** What to do if the current state does not allow the operation, such as a name that is taken. */
    readonly conflict?: (given: Given, ports: Ports) => Awaitable<string | undefined>;
    /** What would stop working, and how to go on: without `--yes`, the command only prints that. `undefined` if nothing needs confirmation. */
    readonly asks?: (
      given: Given,
      ports: Ports,
    ) => Awaitable<{ readonly stops: string; readonly hint: string } | undefined>;
    /** Whether the command is refused if none of its options with a value is given, because nothing would change. */
    readonly requiresOption?: boolean;
  },
): Command {
  const options = [...(derived.options ?? []), ...(asks ? [confirmation] : [])];
  const facts = factsOf(operation, { ...derived, options });
  return {
    ...facts,
    async run(input, { out, ...ports }) {
      const valued = facts.options.filter(({ value }) => value !== undefined);
      if (requiresOption && valued.every(({ name }) => input.list(name).length === 0)) {
        throw new UsageError('give what to change');
      }
      const given = await givenTo(operation, derived, input, ports);
      const question = asks && !input.flag('yes') ? await asks(given, ports) : undefined;
      if (question) {
        throw new CommandError(`nothing was changed: ${question.stops}`, question.hint);
      }
      const other = instead?.(given);
      const output = await (other
        ? administer(other, given, ports)
        : administer(operation, given, ports, () => conflict?.(given, ports)));
      const fault = failed?.(output);
      if (fault !== undefined) throw new CommandError(fault);
      const cells = printed(prints, output, { given, now: ports.clock.now() });
      const isJson = input.flag('json');
      const isShown = secret !== undefined && cells[secret] !== null;
      printMade(cells, { json: isJson, out, ...(isShown && { secret }) });
      const next = isJson ? undefined : await hint?.(output, given, ports);
      if (next !== undefined) out(`hint: ${next}`);
    },
  };
}

const confirmation: Option = {
  name: 'yes',
  doc: 'do it; without this option, only show what would stop working',
};

type ItemOf<Output extends z.ZodObject> =
  z.output<Output> extends { items: readonly (infer Item)[] } ? Item : never;

/** A command that prints all items that an operation lists. */
export function listCommand<Fields extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Fields, Output>,
  {
    prints,
    empty,
    ...derived
  }: DerivedCommand<ItemOf<Output>> & {
    /** Printed when there are no items. */
    readonly empty: string | ((given: Given) => string);
  },
): Command {
  return {
    ...factsOf(operation, derived),
    async run(input, { out, ...ports }) {
      const given = await givenTo(operation, derived, input, ports);
      const at = { given, now: ports.clock.now() };
      const items = await administerList(operation, given, ports);
      const rows = items.map((item) => printed(prints, item, at));
      const words = typeof empty === 'string' ? empty : empty(given);
      printRows(rows, { json: input.flag('json'), empty: words, out });
    },
  };
}

/** All items of a list, from all its pages. */
export async function administerList<Fields extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Fields, Output>,
  input: Given,
  ports: Ports,
): Promise<ItemOf<Output>[]> {
  const { shape } = operation.output;
  const items: ItemOf<Output>[] = [];
  let next: Given | undefined = 'total' in shape ? { page: 1 } : {};
  while (next) {
    const limit = 'total' in shape || 'next' in shape ? { limit: 200 } : {};
    const part: Given = await administer(operation, { ...input, ...limit, ...next }, ports);
    const found = part['items'];
    if (!isListOf<ItemOf<Output>>(found)) throw new TypeError(`${operation.name} lists no items`);
    items.push(...found);
    next = nextPart(part, items.length);
  }
  return items;
}

function isListOf<Item>(value: unknown): value is Item[] {
  return Array.isArray(value);
}

/** The input for the next page of a list; `undefined` after the last page. */
function nextPart({ items, total, page, next }: Given, count: number): Given | undefined {
  if (typeof next === 'string') return { after: next };
  if (typeof total !== 'number' || typeof page !== 'number') return undefined;
  const isLast = count >= total || (Array.isArray(items) && items.length === 0);
  return isLast ? undefined : { page: page + 1 };
}

function factsOf(
  { input }: Pick<Operation, 'input'>,
  { words, doc, positionals = [], options = [] }: Omit<DerivedCommand<never>, 'prints'>,
): CommandFacts {
  const ofFields = optionsOf(input).map(({ option }) => option);
  return {
    words,
    doc,
    positionals: positionals.map(({ usage }) => usage),
    options: [...ofFields, ...options, json],
  };
}

/** The options of the input's fields, in their order. */
function optionsOf({
  shape,
}: z.ZodObject): (Pick<FieldOption, 'read' | 'isPerson'> & { field: string; option: Option })[] {
  return Object.entries<z.ZodType>(shape).flatMap(([field, schema]) => {
    const meta = surfaces.get(schema)?.option;
    if (!meta) return [];
    const { name = optionName(field), doc = uncapitalized(schema.description ?? '') } = meta;
    const { read, isPerson, ...facts } = meta;
    const isRequired = meta.fallback === undefined && !schema.safeParse(undefined).success;
    const option = { ...facts, name, doc, ...(isRequired && { required: true }) };
    return [{ field, option, ...(read && { read }), ...(isPerson && { isPerson }) }];
  });
}

/** `expires-in-days` for `expiresInDays`. */
export function optionName(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function uncapitalized(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** @throws {UsageError} @throws {CommandError} */
async function givenTo(
  operation: Pick<Operation, 'input'>,
  { positionals = [], always }: Pick<DerivedCommand<never>, 'positionals' | 'always'>,
  input: Input,
  ports: Ports,
): Promise<Given> {
  const given: Record<string, unknown> = {
    ...always,
    ...(await givenOptions(operation.input, input, ports)),
  };
  for (const [index, { read }] of positionals.entries()) {
    Object.assign(given, await read(input.positionals[index] ?? '', ports, given));
  }
  return given;
}

/** The fields whose option was given. @throws {UsageError} @throws {CommandError} */
async function givenOptions(fields: z.ZodObject, input: Input, ports: Ports): Promise<Given> {
  const given: Record<string, unknown> = {};
  for (const { field, option, read = (text: string) => text, isPerson } of optionsOf(fields)) {
    const { name, value, repeated } = option;
    if (value === undefined) {
      if (input.flag(name)) given[field] = read('', name);
      continue;
    }
    const texts = input.list(name);
    const typed = isPerson
      ? await Promise.all(texts.map(async (text) => (await requireUser(text, ports.stores)).id))
      : texts.map((text) => read(text, name));
    if (typed.length > 0) given[field] = repeated ? [...new Set(typed)] : typed[0];
  }
  return given;
}

/** The cells that are printed for a record. */
export function printed<Row>(
  prints: readonly Printed<Row>[],
  row: Row,
  at: { readonly given: Given; readonly now: EpochSeconds },
): Record<string, Cell> {
  const columns = prints.flatMap((one): (readonly [string, PrintedValue<Row>])[] =>
    typeof one === 'string' ? [[wireName(one), one]] : Object.entries(one),
  );
  return Object.fromEntries(
    columns.map(([name, value]) => [
      name,
      cellOf(typeof value === 'function' ? value(row, at) : row[value]),
    ]),
  );
}

function cellOf(value: unknown): Cell {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value;
  if (Array.isArray(value)) return value.map(String);
  throw new TypeError('only texts, numbers and lists of texts are printed');
}
