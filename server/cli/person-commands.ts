import {
  personList,
  personRemove,
  personSetRole,
  secondFactorReset,
  sessionsEnd,
} from '#administration/people-operations';
import { json, type Option } from '#config/option';
import { roles } from '#people/role';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
import { findMember } from './find-user.ts';
import { findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

const ofOrganization: Option = {
  name: 'organization',
  value: 'ORG',
  required: true,
  doc: 'where the person belongs',
};

/** What `user …` commands about one membership have in common: who, where, and the answer. */
const onMember = (words: string, doc: string, operation: typeof personRemove): Command => ({
  words,
  positionals: ['EMAIL'],
  options: [ofOrganization, json],
  doc,
  async run(input, { out, ...ports }) {
    const organization = input.must('organization');
    const [who = ''] = input.positionals;
    const { id: userId } = await findMember(who, organization, ports.stores);
    const place = { organization, userId };
    const { email, role } = await administer(operation, place, ports);
    const facts = { id: userId, email, organization: place.organization, role };
    printMade(facts, { json: input.flag('json'), out });
  },
});

export const userLeave = onMember(
  'user leave',
  'take a person out of one organization, with what they allowed there, at once',
  personRemove,
);

export const userEndSessions = onMember(
  'user end-sessions',
  'sign a person out of every browser',
  sessionsEnd,
);

export const userResetSecondFactor = onMember(
  'user reset-second-factor',
  'take away the authenticator app of a person who lost it, its recovery codes, passkeys and linked accounts',
  secondFactorReset,
);

export const userSetRole: Command = {
  words: 'user set-role',
  positionals: ['EMAIL'],
  options: [
    ofOrganization,
    { name: 'role', value: 'ROLE', required: true, doc: `one of ${roles.join(', ')}` },
    json,
  ],
  doc: 'change what a person is in an organization, at once',
  async run(input, { out, ...ports }) {
    const organization = input.must('organization');
    const [who = ''] = input.positionals;
    const { id: userId } = await findMember(who, organization, ports.stores);
    const place = { organization, userId };
    const change = { ...place, role: input.must('role') };
    const { email, role } = await administer(personSetRole, change, ports);
    const facts = { id: userId, email, organization: place.organization, role };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const userMembers: Command = {
  words: 'user members',
  positionals: ['ORG'],
  options: [json],
  doc: 'list the people of an organization with their roles and groups',
  async run(input, { out, ...ports }) {
    const { name } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const rows = [];
    let after: string | null | undefined;
    do {
      const part = { organization: name, limit: 200, ...(after && { after }) };
      const { items, next } = await administer(personList, part, ports);
      for (const { id, email, role, groups, secondFactor, seenAt } of items) {
        const names = groups.map((group) => group.name);
        const factor = secondFactor ? 'yes' : 'no';
        rows.push({ email, id, role, groups: names, second_factor: factor, last_used_at: seenAt });
      }
      after = next;
    } while (after !== null);
    const empty = `nobody yet: latchkey-server invitation create ${name} --role member`;
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};
