import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json, masterKeyFile } from '#config/option';
import { readNamedFile } from '#config/named-file';
import type { Input } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { listInvitations, membersAmong } from '#db/invitations';
import { findOrganization } from '#db/organizations';
import { emailKey } from '#model/email';
import { roles } from '#model/roles';
import { shellWord } from '#model/shell-word';
import { administer, administerList, command, type Command, type CommandPorts } from './command.ts';
import { findGroups, groupList } from './groups.ts';
import { invitationImport, invitationPreview, invitationRenew } from './invitation-batches.ts';
import { invitationCreate, invitationList, invitationRevoke } from './invitations.ts';
import { namedOrganization, organizationArgument, textArgument } from './positionals.ts';
import { type Cell, printMade, printRows } from './print.ts';
import { AdministrationRefusal } from './refusal.ts';

const createCommand: Command = {
  words: 'invitation create',
  positionals: ['ORG'],
  options: [
    {
      name: 'role',
      value: 'ROLE',
      doc: `one of ${roles.join(', ')}; required without --from (with it, the default is member)`,
    },
    { name: 'group', value: 'GROUP', repeated: true, doc: 'a group that the person joins' },
    { name: 'note', value: 'TEXT', doc: 'the intended recipient' },
    { name: 'email', value: 'EMAIL', doc: 'the address of the intended recipient' },
    {
      name: 'from',
      value: 'FILE',
      doc: 'invite everyone in a file instead: addresses, or CSV with the columns email, role and groups; --role and --group are for people without any there',
    },
    {
      name: 'send',
      doc: 'also let the mail server of the organization send the links; the running server does so',
    },
    { name: 'preview', doc: 'with --from: only check the file, and print what would happen' },
    masterKeyFile,
    baseUrl,
    json,
  ],
  doc: 'create a link that lets one person join within seven days, or one for everyone in a file',
  async run(input, ports) {
    const base = checkBaseUrl(input.must('base-url'));
    const organization = input.positionals[0] ?? '';
    const groupIds = await findGroups(organization, input.list('group'), ports);
    const send = input.flag('send');
    const role = input.text('role');
    const usual = { organization, groupIds, ...(role !== undefined && { role }) };
    const file = input.text('from');
    if (file !== undefined) return inviteListed(file, usual, { base, send, input }, ports);
    if (input.flag('preview')) throw new UsageError('--preview needs --from');
    if (role === undefined) throw new UsageError('--role ROLE is missing');
    const email = input.text('email');
    const wanted = { ...usual, send, note: input.text('note') ?? '', ...(email && { email }) };
    const { id, expiresAt, path } = await administer(invitationCreate, wanted, ports, () =>
      insteadOfInviting(email, organization, ports),
    );
    const facts = { id, role, expires_at: expiresAt, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out: ports.out });
  },
};

/** The hint for a person who cannot be invited, because they are a member or were invited already. */
async function insteadOfInviting(
  email: string | undefined,
  organization: string,
  { stores: { db }, clock }: CommandPorts,
): Promise<string | undefined> {
  const found = await findOrganization(db, organization);
  if (email === undefined || !found) return undefined;
  const word = shellWord(email);
  const members = await membersAmong(db, found.id, [emailKey(email)]);
  if (members.size > 0) {
    return `latchkey-server user set-role ${word} --organization ${organization} --role ROLE, or latchkey-server group add ${organization} GROUP ${word}`;
  }
  const pending = await listInvitations(db, found.id, clock.now());
  const known = pending.find((one) => one.email && emailKey(one.email) === emailKey(email));
  return (
    known && `for a new link: latchkey-server invitation renew ${organization} --id ${known.id}`
  );
}

/** Invites everyone in a file, or prints what that would do. People who are skipped have no link. */
async function inviteListed(
  file: string,
  usual: { readonly organization: string },
  { base, send, input }: { readonly base: string; readonly send: boolean; readonly input: Input },
  ports: CommandPorts,
): Promise<void> {
  for (const name of ['note', 'email']) {
    if (input.text(name) !== undefined) throw new UsageError(`--${name} is not for --from`);
  }
  const wanted = { ...usual, list: readNamedFile({ option: 'from', file }) };
  const isPreview = input.flag('preview');
  const namesOf = await groupNames(usual.organization, ports);
  const invite = isPreview
    ? administer(invitationPreview, wanted, ports)
    : administer(invitationImport, { ...wanted, send }, ports);
  const { items, skipped, ignoredColumns } = await invite.catch((error: unknown) => {
    throw faultOfFile(error, file);
  });
  const rows: Record<string, Cell>[] = items.map((one) => ({
    email: one.email,
    role: one.role,
    groups: 'groups' in one ? one.groups : namesOf(one.groupIds),
    status: isPreview ? 'would be invited' : 'invited',
    link: 'path' in one ? base + one.path : null,
  }));
  for (const { email, why } of skipped) {
    rows.push({ email, role: null, groups: null, status: skipWords[why], link: null });
  }
  printRows(rows, { json: input.flag('json'), empty: 'no one to invite', out: ports.out });
  if (ignoredColumns.length > 0) {
    const count =
      ignoredColumns.length === 1 ? '1 column is' : `${ignoredColumns.length} columns are`;
    ports.tell(`note: ${count} not used: ${ignoredColumns.join(', ')}`);
  }
  if (!isPreview && items.length > 0) {
    ports.tell('hint: store the links now; they are not shown again');
  }
}

/** Returns a function that converts group ids to names, and leaves out groups that no longer exist. */
async function groupNames(
  organization: string,
  ports: CommandPorts,
): Promise<(ids: readonly string[]) => string[]> {
  const { items } = await administer(groupList, { organization }, ports);
  const names = new Map(items.map(({ id, name }) => [id, name]));
  return (ids) => ids.flatMap((id) => names.get(id) ?? []);
}

/** Converts an error about the list to one with the name of the file and all faulty lines; returns any other error as it is. */
export function faultOfFile(error: unknown, file: string): unknown {
  const { cause } = error instanceof UsageError ? error : { cause: error };
  const fields = cause instanceof AdministrationRefusal ? cause.fields : [];
  const problems = fields.flatMap(({ field, problem }) => (field === 'list' ? [problem] : []));
  if (problems.length === 0) return error;
  return new UsageError(`--from ${file}, ${problems.join('; ')}`);
}

const skipWords = {
  member: 'skipped: a member already',
  invited: 'skipped: invited already',
  repeated: 'skipped: earlier in the file',
} as const;

const listCommand: Command = {
  words: 'invitation list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list the invitations that were not accepted: the pending ones, and those that expired lately',
  async run(input, ports) {
    const { name: organization } = await namedOrganization(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const items = await administerList(invitationList, { organization }, ports);
    const namesOf = await groupNames(organization, ports);
    const rows = items.map(({ groupIds, ...one }) => ({
      id: one.id,
      email: one.email,
      role: one.role,
      groups: namesOf(groupIds),
      note: one.note,
      status: one.status,
      created_by: one.createdBy,
      created_at: one.createdAt,
      expires_at: one.expiresAt,
    }));
    const empty = `no invitations: latchkey-server invitation create ${organization} --role member`;
    printRows(rows, { json: input.flag('json'), empty, out: ports.out });
  },
};

const renewCommand: Command = {
  words: 'invitation renew',
  positionals: ['ORG'],
  options: [
    { name: 'id', value: 'ID', repeated: true, doc: 'an invitation to renew' },
    { name: 'all-expired', doc: 'renew all that expired in the last 30 days' },
    { name: 'all-pending', doc: 'renew all that were not accepted yet' },
    {
      name: 'send',
      doc: 'also let the mail server of the organization send a reminder to those with an address',
    },
    masterKeyFile,
    baseUrl,
    json,
  ],
  doc: 'give invitations a new link and seven more days; earlier links of pending ones stay valid',
  async run(input, ports) {
    const base = checkBaseUrl(input.must('base-url'));
    const invitationIds = input.list('id');
    const all = (['expired', 'pending'] as const).filter((one) => input.flag(`all-${one}`));
    if ((invitationIds.length > 0 ? 1 : 0) + all.length !== 1) {
      throw new UsageError('give --id, --all-expired or --all-pending');
    }
    const organization = input.positionals[0] ?? '';
    const which = all[0] ? { all: all[0] } : { invitationIds };
    const wanted = { organization, ...which, send: input.flag('send') };
    const { items } = await administer(invitationRenew, wanted, ports);
    const rows = items.map(({ id, email, note, role, expiresAt, path }) => {
      return { id, email, note, role, expires_at: expiresAt, link: base + path };
    });
    printRows(rows, { json: input.flag('json'), empty: '', out: ports.out });
    ports.tell('hint: store the links now; they are not shown again');
  },
};

export const invitationCommands: readonly Command[] = [
  createCommand,
  listCommand,
  renewCommand,
  command(invitationRevoke, {
    words: 'invitation revoke',
    positionals: [organizationArgument, textArgument('ID', 'invitationId')],
    doc: 'revoke an invitation; its links stop working',
    prints: ['id', { revoked_at: (_, { now }) => now }],
  }),
];
