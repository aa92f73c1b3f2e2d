import { countInvitations, listInvitations, membersAmong } from '#db/invitations';
import { listGroups } from '#db/groups';
import { type CsvRecord, csvSeparator, readCsv } from '#model/csv';
import { emailKey, isEmail } from '#model/email';
import { isRole, roles, type Role } from '#model/roles';
import { unknownGroup } from './groups.ts';
import { type AdministrationPorts, mayDo, type WithDbAndClock } from './operation.ts';
import { AdministrationRefusal, conflict, type FieldError } from './refusal.ts';

/*
 * A list of people to invite: addresses, separated by line breaks, commas or semicolons, or CSV with the columns email, role and groups.
 */

/** The most people in one list, and the longest list in characters. */
export const mostListed = 1000;
export const longestList = 200_000;
/** The most invitations that an organization can have, pending and lately expired. */
const mostInvitations = 5000;
const mostProblems = 50;
const longestQuote = 60;

/** Why a person of a list is not invited. */
export const skipReasons = ['member', 'invited', 'repeated'] as const;

/** A person of a list, and why they are skipped, if they are. */
export interface ListedPerson {
  readonly line: number;
  readonly email: string;
  /** As in `Dana Miller <dana@example.com>`; empty if there is none. */
  readonly name: string;
  readonly role: Role;
  readonly groups: readonly { readonly id: string; readonly name: string }[];
  readonly skipped: (typeof skipReasons)[number] | undefined;
}

/** The role and groups of people for whom the list names none. */
interface ListDefaults {
  readonly role: Role;
  readonly groupIds: readonly string[];
}

/**
 * Reads a list, and compares it with the members and invitations of the organization.
 *
 * @throws {AdministrationRefusal} `invalid`, with one problem for each faulty line; `conflict` if there are too many invitations
 */
export async function readInvitationList(
  text: string,
  defaults: ListDefaults,
  { organizationId, by }: { readonly organizationId: string; readonly by: Role },
  { db, clock }: WithDbAndClock,
): Promise<{ readonly people: readonly ListedPerson[]; readonly ignored: readonly string[] }> {
  const { entries, problems, ignored } = entriesOf(text);
  const groups = await listGroups(db, organizationId);
  const groupsById = new Map(groups.map((group) => [group.id, group]));
  const usual = defaults.groupIds.flatMap((id) => groupsById.get(id) ?? []);
  if (usual.length !== defaults.groupIds.length) throw unknownGroup();
  const readGroups = groupReader(groups);
  const listed = entries.flatMap((entry) => {
    const address = readAddress(entry.address);
    const role = entry.role === '' ? defaults.role : readRole(entry.role, by);
    const chosen = entry.groups === '' ? usual : readGroups(entry.groups);
    for (const one of [address, role, chosen]) {
      if (!isRight(one)) problems.push({ line: entry.line, why: one.wrong });
    }
    if (!isRight(address) || !isRight(role) || !isRight(chosen)) return [];
    const into = chosen.map(({ id, name }) => ({ id, name }));
    return [{ line: entry.line, ...address, role, groups: into }];
  });
  if (problems.length > 0) throw listRefusal(lineErrors(problems));
  const skippedBecause = await skipper(listed, organizationId, { db, clock });
  const people = listed.map((one) => Object.assign(one, { skipped: skippedBecause(one) }));
  const added = people.filter(({ skipped }) => skipped === undefined).length;
  await checkRoom(db, organizationId, added);
  return { people, ignored };
}

/** Returns a function to call for each person in the order of the list: it returns why that person is not invited. */
export async function skipper(
  listed: readonly { readonly email: string }[],
  organizationId: string,
  { db, clock }: WithDbAndClock,
) {
  const keys = listed.map(({ email }) => emailKey(email));
  const members = await membersAmong(db, organizationId, keys);
  const pending = await listInvitations(db, organizationId, clock.now());
  const invited = new Set(pending.flatMap(({ email }) => (email ? [emailKey(email)] : [])));
  const seen = new Set<string>();
  return ({ email }: { readonly email: string }): ListedPerson['skipped'] => {
    const key = emailKey(email);
    if (seen.has(key)) return 'repeated';
    seen.add(key);
    if (members.has(key)) return 'member';
    return invited.has(key) ? 'invited' : undefined;
  };
}

/** @throws {AdministrationRefusal} `conflict` if `added` more invitations would be too many */
export async function checkRoom(
  db: AdministrationPorts['db'],
  organizationId: string,
  added: number,
): Promise<void> {
  const stored = await countInvitations(db, organizationId);
  if (stored + added <= mostInvitations) return;
  throw conflict(`there would be more than ${mostInvitations} invitations: revoke some first`);
}

interface Entry {
  readonly line: number;
  readonly address: string;
  readonly role: string;
  readonly groups: string;
}

interface LineProblem {
  readonly line: number;
  readonly why: string;
}

interface Wrong {
  readonly wrong: string;
}

export function isRight<Value>(value: Value | Wrong): value is Value {
  return !(typeof value === 'object' && value !== null && 'wrong' in value);
}

/**
 * The addresses of a list as they were typed. Roles and groups in it are ignored.
 *
 * @throws {AdministrationRefusal} `invalid`, with one problem for each malformed line
 */
export function readAddressList(text: string): readonly string[] {
  const { entries, problems } = entriesOf(text);
  if (problems.length > 0) throw listRefusal(lineErrors(problems));
  return entries.map(({ address }) => address);
}

/** The people of a list as they were typed, and the problems with its form. */
function entriesOf(text: string): {
  readonly entries: readonly Entry[];
  readonly problems: LineProblem[];
  readonly ignored: readonly string[];
} {
  const { records, open } = readCsv(text, csvSeparator(text));
  const problems: LineProblem[] = [];
  if (open !== undefined) {
    problems.push({ line: open, why: 'a quotation mark is never closed: add the closing "' });
    return { entries: [], problems, ignored: [] };
  }
  const [first] = records;
  if (!first) {
    problems.push({ line: 1, why: 'there is no address: paste at least one' });
    return { entries: [], problems, ignored: [] };
  }
  const columns = headerOf(first);
  if (columns && !columns.includes('email')) {
    problems.push({ line: first.line, why: 'no column is named email: name one so' });
    return { entries: [], problems, ignored: [] };
  }
  const rows = columns ? records.slice(1) : records;
  const entries = rows.flatMap((record) => entriesIn(record, columns, problems));
  if (entries.length > mostListed) {
    const { line } = entries[mostListed] ?? { line: 1 };
    const why = `is past the limit of ${mostListed} people: split the list`;
    return { entries: [], problems: [{ line, why }], ignored: [] };
  }
  if (entries.length === 0 && problems.length === 0) {
    problems.push({ line: first.line, why: 'there is no address below the names of the columns' });
  }
  const ignored = first.cells.filter((_, index) => columns && columns[index] === undefined);
  return { entries, problems, ignored: ignored.filter((name) => name !== '') };
}

type Column = 'email' | 'role' | 'groups';
const columnNames = new Map<string, Column>([
  ['email', 'email'],
  ['e-mail', 'email'],
  ['email address', 'email'],
  ['e-mail address', 'email'],
  ['mail', 'email'],
  ['role', 'role'],
  ['group', 'groups'],
  ['groups', 'groups'],
]);
const usualColumns: readonly (Column | undefined)[] = ['email', 'role', 'groups'];

/** The columns that a header names; `undefined` if the record is not a header. */
function headerOf({ cells }: CsvRecord): (Column | undefined)[] | undefined {
  if (cells.some((cell) => cell.includes('@'))) return undefined;
  const columns = cells.map((cell) => columnNames.get(cell.trim().toLowerCase()));
  return columns.some((column) => column !== undefined) ? columns : undefined;
}

function entriesIn(
  { line, cells }: CsvRecord,
  columns: readonly (Column | undefined)[] | undefined,
  problems: LineProblem[],
): Entry[] {
  const filled = cells.filter((cell) => cell !== '');
  // A line of addresses, as mail programs copy them.
  if (!columns && filled.length > 1 && filled.every((cell) => cell.includes('@'))) {
    return filled.map((address) => ({ line, address, role: '', groups: '' }));
  }
  const known = columns ?? usualColumns;
  const beyond = cells.slice(known.length).some((cell) => cell !== '');
  if (beyond) {
    const why = `has more than ${known.length} columns: put a cell that contains the separator in quotation marks`;
    problems.push({ line, why });
    return [];
  }
  const cellOf = (column: Column) => cells[known.indexOf(column)] ?? '';
  return [{ line, address: cellOf('email'), role: cellOf('role'), groups: cellOf('groups') }];
}

/** Reads `dana@example.com`, or `Dana Miller <dana@example.com>`. */
export function readAddress(
  typed: string,
): { readonly email: string; readonly name: string } | Wrong {
  const [, written = '', inside] = /^(.*?)<([^<>]*)>$/s.exec(typed) ?? [];
  // Pasted text may include the punctuation at the end of a list or a sentence.
  const email = (inside ?? typed).trim().replace(/[;,.]+$/, '');
  const name = written
    .replaceAll(/["\p{Cc}]/gu, ' ')
    .trim()
    .slice(0, 200);
  if (isEmail(email)) return { email, name };
  if (email === '') return { wrong: 'has no address: add one, or remove the line' };
  return { wrong: `${quoted(email)} is not an e-mail address, for example dana@example.com` };
}

function readRole(typed: string, by: Role): Role | Wrong {
  const role = typed.trim().toLowerCase();
  if (!isRole(role)) {
    return { wrong: `the role ${quoted(typed)} is unknown: use ${roles.join(', ')}` };
  }
  if (role === 'owner' && !mayDo(by, 'owners.manage')) {
    return { wrong: 'only an owner can invite an owner: use admin, or ask an owner' };
  }
  return role;
}

type Named = { readonly id: string; readonly name: string };

/** Reads the groups in a cell, separated by semicolons or bars, otherwise by commas. A cell that is the name of one group is not split. */
function groupReader(groups: readonly Named[]): (typed: string) => readonly Named[] | Wrong {
  const byName = new Map(groups.map((group) => [group.name, group]));
  const byKey = new Map(groups.map((group) => [group.name.toLowerCase(), group]));
  const find = (name: string) => byName.get(name) ?? byKey.get(name.toLowerCase());
  return (typed) => {
    const isOne = find(typed.trim()) !== undefined;
    const separator = /[;|]/.test(typed) ? /[;|]/ : ',';
    const cut = isOne ? [typed] : typed.split(separator);
    const names = cut.map((name) => name.trim()).filter((name) => name !== '');
    const unknown = names.find((name) => !find(name));
    if (unknown !== undefined) {
      const why = `there is no group ${quoted(unknown)}: correct its name, or create it under Groups`;
      return { wrong: why };
    }
    const found = names.flatMap((name) => find(name) ?? []);
    return [...new Map(found.map((group) => [group.id, group])).values()];
  };
}

function quoted(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return `“${line.length > longestQuote ? `${line.slice(0, longestQuote)}…` : line}”`;
}

function lineErrors(problems: readonly LineProblem[]): readonly FieldError[] {
  const ordered = problems.toSorted((one, other) => one.line - other.line);
  const errors = ordered
    .slice(0, mostProblems)
    .map(({ line, why }) => ({ field: 'list', problem: `line ${line}: ${why}` }));
  const more = problems.length - mostProblems;
  if (more <= 0) return errors;
  return [...errors, { field: 'list', problem: `has ${more} more problems after these` }];
}

function listRefusal(fields: readonly FieldError[]): AdministrationRefusal {
  const words = fields.map(({ field, problem }) => `${field} ${problem}`).join('; ');
  return new AdministrationRefusal('invalid', words, { fields });
}
