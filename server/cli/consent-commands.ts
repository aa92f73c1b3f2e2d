import { grantList, grantWithdraw } from '#administration/grant-operations';
import { json } from '#config/option';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { findUser } from './find-user.ts';
import { findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const consentList: Command = {
  words: 'consent list',
  positionals: ['ORG'],
  options: [{ name: 'user', value: 'EMAIL', doc: 'only what this person allowed' }, json],
  doc: 'list what the people of an organization allowed applications to do',
  async run(input, { out, ...ports }) {
    const { name: organization } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const email = input.text('user');
    const user = email === undefined ? undefined : await findUser(email, ports.stores);
    const wanted = { organization, ...(user && { userId: user.id }) };
    const rows = (await administerList(grantList, wanted, ports)).map((grant) => ({
      id: grant.id,
      user: grant.email,
      client: grant.client,
      server: grant.server,
      scopes: grant.scopes,
      created_at: grant.createdAt,
      expires_at: grant.expiresAt,
    }));
    const empty = 'nobody allows an application anything now';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const consentWithdraw: Command = {
  words: 'consent withdraw',
  positionals: ['ORG', 'ID'],
  options: [json],
  doc: 'take back what a person allowed an application, at once',
  async run(input, { out, ...ports }) {
    const [organization = '', grantId = ''] = input.positionals;
    await findOrganization(organization, ports.stores);
    const { id } = await administer(grantWithdraw, { organization, grantId }, ports);
    const facts = { id, revoked_at: ports.clock.now() };
    printMade(facts, { json: input.flag('json'), out });
  },
};
