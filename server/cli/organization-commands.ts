import {
  organizationCreate as create,
  organizationList as list,
  organizationUpdate as update,
} from '#administration/organization-operations';
import { settingsRead, settingsUpdate } from '#administration/settings-operations';
import { json } from '#config/option';
import { UsageError } from '#config/usage-error';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { checkSlug, findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const organizationCreate: Command = {
  words: 'organization create',
  positionals: ['ORG'],
  options: [json],
  doc: 'make an organization',
  async run(input, { out, ...ports }) {
    const name = checkSlug(input.positionals[0] ?? '', 'an organization');
    const { id } = await administer(create, { name }, ports);
    const isJson = input.flag('json');
    printMade({ id, name }, { json: isJson, out });
    if (isJson) return;
    out(
      `hint: nobody belongs to it yet: latchkey-server user create EMAIL --organization ${name} --role owner`,
    );
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

export const organizationUpdate: Command = {
  words: 'organization update',
  positionals: ['ORG'],
  options: [
    { name: 'title', value: 'T', doc: 'what people call it' },
    { name: 'second-factor', value: 'YES|NO', doc: 'whether everybody needs one here' },
    {
      name: 'open-clients',
      value: 'YES|NO',
      doc: 'whether applications that registered themselves have access',
    },
    json,
  ],
  doc: 'change what people call an organization, and what it asks of them',
  async run(input, { out, ...ports }) {
    const { name } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const place = { organization: name };
    const title = input.text('title');
    const secondFactorRequired = yesOrNo('second-factor', input.text('second-factor'));
    const openClientsAllowed = yesOrNo('open-clients', input.text('open-clients'));
    if (title !== undefined) await administer(update, { ...place, title }, ports);
    if (secondFactorRequired !== undefined || openClientsAllowed !== undefined) {
      const change = { ...place, secondFactorRequired, openClientsAllowed };
      await administer(settingsUpdate, change, ports);
    }
    const now = await administer(settingsRead, place, ports);
    const word = (holds: boolean) => (holds ? 'yes' : 'no');
    const facts = {
      name,
      ...(title !== undefined && { title }),
      second_factor: word(now.secondFactorRequired),
      open_clients: word(now.openClientsAllowed),
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** @throws {UsageError} */
function yesOrNo(option: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new UsageError(`--${option} '${text}' is neither yes nor no`);
}
