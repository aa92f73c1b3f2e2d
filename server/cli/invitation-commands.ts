import {
  invitationCreate as create,
  invitationList as list,
  invitationRevoke as revoke,
} from '#administration/invitation-operations';
import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json } from '#config/option';
import { roles } from '#people/role';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
import { findGroups } from './group-commands.ts';
import { findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const invitationCreate: Command = {
  words: 'invitation create',
  positionals: ['ORG'],
  options: [
    { name: 'role', value: 'ROLE', required: true, doc: `one of ${roles.join(', ')}` },
    { name: 'group', value: 'GROUP', repeated: true, doc: 'a group that the person comes into' },
    { name: 'note', value: 'N', doc: 'whom it is meant for' },
    baseUrl,
    json,
  ],
  doc: 'make a link by which one person joins, once, within seven days',
  async run(input, { out, ...ports }) {
    const base = checkBaseUrl(input.must('base-url'));
    const organization = input.positionals[0] ?? '';
    const groupIds = await findGroups(organization, input.list('group'), ports);
    const note = input.text('note') ?? '';
    const chosen = { organization, role: input.must('role'), groupIds, note };
    const { id, role, expiresAt, path } = await administer(create, chosen, ports);
    const facts = { id, role, expires_at: expiresAt, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out });
  },
};

export const invitationList: Command = {
  words: 'invitation list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list the invitations that nobody has taken yet',
  async run(input, { out, ...ports }) {
    const { name: organization } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const { items } = await administer(list, { organization }, ports);
    const rows = items.map(({ id, role, note, createdBy, createdAt, expiresAt }) => ({
      id,
      role,
      note,
      created_by: createdBy,
      created_at: createdAt,
      expires_at: expiresAt,
    }));
    const empty = `none: latchkey-server invitation create ${organization} --role member`;
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const invitationRevoke: Command = {
  words: 'invitation revoke',
  positionals: ['ORG', 'ID'],
  options: [json],
  doc: 'take an invitation back; its link opens nothing any more',
  async run(input, { out, ...ports }) {
    const [organization = '', invitationId = ''] = input.positionals;
    await findOrganization(organization, ports.stores);
    const { id } = await administer(revoke, { organization, invitationId }, ports);
    const facts = { id, revoked_at: ports.clock.now() };
    printMade(facts, { json: input.flag('json'), out });
  },
};
