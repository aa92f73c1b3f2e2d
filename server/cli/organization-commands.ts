import {
  organizationCreate as create,
  organizationList as list,
} from '#administration/organization-operations';
import { json } from '#config/option';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { checkSlug } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const organizationCreate: Command = {
  words: 'organization create',
  positionals: ['ORG'],
  options: [json],
  doc: 'make an organization',
  async run(input, { out, ...ports }) {
    const name = checkSlug(input.positionals[0] ?? '', 'an organization');
    const { id } = await administer(create, { name }, ports);
    printMade({ id, name }, { json: input.flag('json'), out });
  },
};

export const organizationList: Command = {
  words: 'organization list',
  positionals: [],
  options: [json],
  doc: 'list organizations',
  async run(input, { out, ...ports }) {
    const rows = (await administerList(list, {}, ports)).map((organization) => ({
      id: organization.id,
      name: organization.name,
      title: organization.title,
      created_at: organization.createdAt,
    }));
    const empty = 'no organizations yet: latchkey-server organization create ORG';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};
