import { domainToASCII } from 'node:url';

import { z } from 'zod';

import { loseDomain } from '#accounts/organization-providers';
import { type DomainCheck, domainRecord } from '#accounts/provider-setup';
import {
  deleteDomain,
  findDomain,
  findProvedDomain,
  insertDomain,
  listDomains,
  setDomainProof,
  type OrganizationDomain,
} from '#db/organization-domains';
import { findOrganizationName, type Organization } from '#db/organizations';
import { isDomain } from '#model/email';
import { randomBase62 } from '#secrets/secrets';
import { command, listCommand, type Command } from './command.ts';
import { fields, surfaces, identifier } from './fields.ts';
import {
  operator,
  organizationOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { organizationArgument, organizationIn, textArgument } from './positionals.ts';
import { conflict, forbidden, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostDomains = 50;

/** The view of a domain: on pages, in the API and in commands. */
const domainViewSchema = z
  .object({
    domain: z.string(),
    status: z.enum(['unproved', 'proved']),
    provedBy: z.enum(['dns', 'operator']).nullable(),
    provedAt: fields.maybeAt,
    checkedAt: fields.maybeAt.describe('When its DNS record was last found'),
    recordName: z.string().describe('The name of the TXT record that proves it'),
    recordValue: z.string().describe('What the TXT record contains'),
    createdAt: fields.at,
  })
  .meta({ id: 'OrganizationDomain' });

export type DomainView = z.output<typeof domainViewSchema>;

function toDomainView(domain: OrganizationDomain): DomainView {
  const { proof } = domain;
  const { name, value } = domainRecord(domain);
  return viewOf(domainViewSchema, {
    ...domain,
    status: proof ? 'proved' : 'unproved',
    provedBy: proof?.by,
    provedAt: proof?.at,
    checkedAt: proof?.checkedAt,
    recordName: name,
    recordValue: value,
  });
}

async function ownDomain(
  { id }: Organization,
  domain: string,
  { db }: WithDb,
): Promise<OrganizationDomain> {
  const found = await findDomain(db, id, domain);
  if (!found) throw notFound('domain');
  return found;
}

const inOrganization = { organization: fields.organization };
const listPath = '/organizations/{organization}/domains';
const path = `${listPath}/{domain}`;
const domainField = z
  .string()
  .max(255)
  .transform((text) => domainToASCII(text.trim().toLowerCase()))
  .refine(isDomain, 'is not a domain, for example example.com')
  .register(surfaces, {
    control: {
      kind: 'text',
      label: 'Domain',
      subject: 'The domain',
      help: 'What follows the @ of your addresses. Example: example.com',
      attributes: { ...identifier, maxlength: '255' },
    },
  });
/** A domain that was added before; any other text is not found. */
const ofDomain = {
  ...inOrganization,
  domain: z
    .string()
    .max(255)
    .transform((text) => text.trim().toLowerCase()),
};
const target = ({ domain }: { domain: string }) => `domain:${domain}`;
const toRead = 'provider.read';
const toManage = 'provider.manage';

export const domainList = organizationOperation({
  name: 'domain.list',
  doc: 'List the e-mail domains of an organization',
  route: { method: 'GET', path: listPath },
  permission: toRead,
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(domainViewSchema) }),
  run: async (_input, { organization }, { db }) => ({
    items: (await listDomains(db, organization.id)).map(toDomainView),
  }),
});

export const domainAdd = organizationOperation({
  name: 'domain.add',
  doc: 'Add an e-mail domain; the response says which DNS record proves it',
  route: { method: 'POST', path: listPath },
  permission: toManage,
  input: z.strictObject({ ...inOrganization, domain: domainField }),
  output: domainViewSchema,
  target,
  async run({ domain }, { organization }, ports) {
    const made = {
      organizationId: organization.id,
      domain,
      verificationToken: randomBase62(24),
      createdAt: ports.clock.now(),
    };
    switch (await insertDomain(ports.db, made, mostDomains)) {
      case 'known':
        throw conflict(`${domain} was added before`);
      case 'full':
        throw conflict(`there are already ${mostDomains} domains`);
      case 'done':
        return toDomainView(await ownDomain(organization, domain, ports));
    }
  },
});

export const domainProve = organizationOperation({
  name: 'domain.prove',
  doc: 'Look the DNS record of a domain up now, and record that it proves the domain',
  route: { method: 'POST', path: `${path}/prove` },
  permission: toManage,
  input: z.strictObject(ofDomain),
  output: domainViewSchema,
  target,
  async ahead({ domain }, { organization }, ports) {
    const { db, providerSetup } = ports;
    const own = await ownDomain(organization, domain, ports);
    const check = await providerSetup.checkDomain(own);
    const holder = await findProvedDomain(db, domain);
    // A former owner of the domain cannot keep the next owner from proving it.
    if (
      check === 'found' &&
      holder?.proof?.by === 'dns' &&
      holder.organizationId !== organization.id
    ) {
      const theirs = await findOrganizationName(db, holder.organizationId);
      if ((await providerSetup.checkDomain(holder)) === 'absent') {
        await loseDomain(holder, theirs ?? '', ports.clock.now(), db);
      }
    }
    return { providerSetup: { ...providerSetup, checkDomain: async () => check } };
  },
  async run({ domain }, { organization }, ports) {
    const own = await ownDomain(organization, domain, ports);
    const check: DomainCheck = await ports.providerSetup.checkDomain(own);
    const { name } = domainRecord(own);
    if (check === 'unreachable') throw conflict(`the name servers of ${domain} do not answer`);
    if (check === 'absent') {
      const why = `${name} has no TXT record with the value that is shown; a new record can take an hour to appear`;
      throw conflict(why);
    }
    return proved(own, 'dns', organization, ports);
  },
});

/** For closed networks, where this server cannot look up DNS records of the internet. Only a command offers it. */
export const domainConfirm = organizationOperation({
  name: 'domain.confirm',
  doc: 'Confirm that a domain belongs to an organization, without a DNS record',
  permission: toManage,
  input: z.strictObject(ofDomain),
  output: domainViewSchema,
  target,
  async run({ domain }, { organization, actor }, ports) {
    if (actor.type !== operator.type) {
      throw forbidden('only the operator of this server can do this');
    }
    const own = await ownDomain(organization, domain, ports);
    return proved(own, 'operator', organization, ports);
  },
});

async function proved(
  { domain }: OrganizationDomain,
  by: 'dns' | 'operator',
  organization: Organization,
  ports: WithDbAndClock,
): Promise<DomainView> {
  const proof = { by, at: ports.clock.now() };
  const outcome = await setDomainProof(ports.db, organization.id, domain, proof);
  if (outcome === 'taken') {
    throw conflict(`another organization of this server has proved ${domain}: ask the operator`);
  }
  return toDomainView(await ownDomain(organization, domain, ports));
}

export const domainRemove = organizationOperation({
  name: 'domain.remove',
  doc: 'Remove an e-mail domain; people who are linked stay linked',
  route: { method: 'DELETE', path },
  permission: toManage,
  input: z.strictObject(ofDomain),
  output: z.object({ domain: z.string() }),
  target,
  async run({ domain }, { organization }, ports) {
    await ownDomain(organization, domain, ports);
    await deleteDomain(ports.db, organization.id, domain);
    return { domain };
  },
});

export const domainOperations: readonly Operation[] = [
  domainList,
  domainAdd,
  domainProve,
  domainConfirm,
  domainRemove,
];

const domainArguments = [organizationArgument, textArgument('DOMAIN', 'domain')];
const columns = ['domain', 'status', 'provedBy', 'recordName', 'recordValue', 'checkedAt'] as const;

export const domainCommands: readonly Command[] = [
  command(domainAdd, {
    words: 'domain add',
    positionals: domainArguments,
    doc: 'add an e-mail domain to an organization, and show the DNS record that proves it',
    prints: columns,
    hint: ({ domain }, given) =>
      `add the TXT record, then: latchkey-server domain prove ${organizationIn(given)} ${domain}`,
  }),
  listCommand(domainList, {
    words: 'domain list',
    positionals: [organizationArgument],
    doc: 'list the e-mail domains of an organization',
    prints: columns,
    empty: (given) => `no domains yet: latchkey-server domain add ${organizationIn(given)} DOMAIN`,
  }),
  command(domainProve, {
    words: 'domain prove',
    positionals: domainArguments,
    doc: 'look the DNS record of a domain up, and record that it proves the domain',
    prints: columns,
  }),
  command(domainConfirm, {
    words: 'domain confirm',
    positionals: domainArguments,
    doc: 'confirm that a domain belongs to an organization, where no DNS record can be looked up',
    prints: columns,
  }),
  command(domainRemove, {
    words: 'domain remove',
    positionals: domainArguments,
    doc: 'remove an e-mail domain from an organization',
    prints: ['domain', { removed_at: (_, { now }) => now }],
  }),
];
