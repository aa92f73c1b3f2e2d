import { z } from 'zod';

import { insertClient } from '#db/clients';
import { findTrustRule, insertTrustRule, type TrustRule, updateTrustRule } from '#db/trust-rules';
import { isProviderIssuer } from '#db/vouching-providers';
import { ordinaryScopes } from '#model/scopes';
import { randomBase62 } from '#secrets/secrets';
import { outboundHost } from '#config/option';
import { clientKeysField, codeAttributes, jwksField, jwksOf, readJwks } from './client-keys.ts';
import {
  clientName,
  clientPath,
  clientScopes,
  clientViewSchema,
  createdClientSchema,
  ofClient,
  ownClient,
  toClientView,
} from './clients.ts';
import { command, type Command } from './command.ts';
import { createProvedClient } from './create-credentials.ts';
import {
  optional,
  orDefault,
  fields,
  readScope,
  surfaces,
  wholeNumber,
  words,
  yesOrNo,
  nameControl,
} from './fields.ts';
import {
  actorName,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { ownServer } from './paths.ts';
import { organizationArgument, organizationOrServerArgument, textArgument } from './positionals.ts';
import { conflict, invalidField } from './refusal.ts';
import { maybeToolSelection, selectionCell } from './tool-selection.ts';

const inOrganization = { organization: fields.organization };
const target = ({ clientId }: { clientId: string }) => `client:${clientId}`;

const nameField = clientName
  .clone()
  .describe('The application that uses the client')
  .register(surfaces, {
    option: { value: 'NAME' },
    control: nameControl('People and administrators see it with the access that it has.'),
  });
const scopesField = clientScopes
  .clone()
  .describe('The scopes that it can request')
  .register(surfaces, {
    ...surfaces.get(clientScopes),
    option: {
      name: 'scope',
      value: 'SCOPE',
      repeated: true,
      doc: 'a scope that the client can request (default: those for using servers)',
      read: readScope,
    },
  });
const scopesOrUsual = orDefault(scopesField, [...ordinaryScopes]);

export const organizationClientCreate = organizationOperation({
  name: 'organization-client.create',
  doc: 'Create an OAuth client of a whole organization, for identity assertions only; only this response contains its secret',
  route: { method: 'POST', path: '/organizations/{organization}/clients', made: clientPath },
  permission: 'client.manage',
  input: z.strictObject({
    ...inOrganization,
    name: nameField,
    scopes: scopesOrUsual,
    tools: maybeToolSelection,
    jwks: clientKeysField({
      help: 'Only if the application signs with its own private key: {"keys":[…]}, public members only.',
      rows: 4,
    }),
  }),
  output: createdClientSchema.meta({ id: 'CreatedOrganizationClient' }),
  target: (_, made) => made && target(made),
  async run({ name, scopes, tools, jwks }, { organization, actor }, ports) {
    const chosen = {
      name,
      serverId: undefined,
      organizationId: organization.id,
      scopes,
      tools,
      redirectUris: [],
      authenticationRequired: true,
      createdBy: actorName(actor),
    };
    const made = await createProvedClient({ ...chosen, jwks }, ports);
    const client = await ownClient(organization.name, made.id, ports);
    return { ...toClientView(client), clientSecret: made.secret };
  },
});

export const organizationClientOperations: readonly Operation[] = [organizationClientCreate];

const defaultLifeSeconds = 3600;
const mostLifeSeconds = 86_400;

const issuerField = z
  .string()
  .max(500)
  .describe('The issuer of its tokens, as `iss` says it')
  .register(surfaces, {
    option: { value: 'URL', doc: 'the issuer of its tokens, exactly as iss says it' },
    control: {
      kind: 'text',
      type: 'url',
      label: 'Issuer',
      subject: 'The issuer',
      help: 'For GitHub Actions: https://token.actions.githubusercontent.com',
      attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
    },
  });
const subjectField = words(500)
  .min(1)
  .refine(
    (text) => !text.includes('*') || /^[^*]+[:/]\*$/.test(text),
    'may contain * only at its end, directly after : or /',
  )
  .describe('`sub` of its tokens; a `*` at the end, after `:` or `/`, stands for anything')
  .register(surfaces, {
    option: {
      value: 'SUB',
      doc: 'sub of its tokens; * at the end after : or / stands for anything',
    },
    control: {
      kind: 'text',
      label: 'Subject',
      subject: 'The subject',
      help: 'For example repo:acme/app:ref:refs/heads/main. A * at the end, after : or /, stands for anything.',
      attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
    },
  });
const claimField = words(1000)
  .regex(/^[^=]{1,200}=.+$/, 'is not NAME=VALUE')
  .describe('Another claim that must have a value, as `name=value`, where names can be used again')
  .register(surfaces, {
    option: { value: 'NAME=VALUE', doc: 'another claim that must have this value' },
    control: {
      kind: 'text',
      label: 'Another claim',
      subject: 'The claim',
      help: 'Where a name can be registered again by someone else, for example repository_owner_id=1234.',
      attributes: { autocomplete: 'off', spellcheck: 'false' },
    },
  });
const audienceField = words(500)
  .min(1)
  .describe('`aud` of its tokens; by default the URL of this server')
  .register(surfaces, {
    option: { value: 'AUD', doc: 'aud of its tokens (default: the URL of this server)' },
    control: {
      kind: 'text',
      label: 'Audience',
      subject: 'The audience',
      help: 'Only if the platform cannot issue tokens for the URL of this server. No other service may accept it.',
      attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
    },
  });
const keysUrlField = z
  .string()
  .max(500)
  .describe('Where the keys of the issuer are, if its configuration does not say so')
  .register(surfaces, {
    option: { value: 'URL', doc: 'where the keys of the issuer are, if not as discovered' },
    control: {
      kind: 'text',
      type: 'url',
      label: 'Keys URL',
      subject: 'The keys URL',
      help: 'Only if the configuration of the issuer does not say where its keys are.',
      attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
    },
  });
const issuerKeysField = jwksField
  .clone()
  .describe('The keys of the issuer, if they cannot be read from here')
  .register(surfaces, {
    option: {
      name: 'jwks',
      value: 'FILE',
      doc: 'the public keys of the issuer, if they cannot be read from here',
      read: readJwks,
    },
    control: {
      kind: 'textarea',
      label: 'Keys of the issuer',
      subject: 'The JWK set',
      help: 'Only if this server cannot reach the issuer: {"keys":[…]}.',
      rows: 4,
      attributes: codeAttributes,
      read: jwksOf,
    },
  });
const longestLifeField = wholeNumber(60, mostLifeSeconds)
  .describe('How long its tokens may live at most')
  .register(surfaces, {
    option: {
      name: 'longest-life',
      value: 'SECONDS',
      doc: `how long its tokens may live at most (default: ${defaultLifeSeconds})`,
    },
    control: {
      kind: 'text',
      label: 'Longest life in seconds',
      subject: 'The longest life',
      help: `Tokens that live longer are refused. Empty: ${defaultLifeSeconds}.`,
      attributes: { inputmode: 'numeric', autocomplete: 'off' },
    },
  });
const singleUseField = z
  // Forms send words.
  .preprocess(
    (value) => (value === 'yes' || value === 'no' ? value === 'yes' : value),
    z.boolean().describe('Whether each token can be exchanged once only'),
  )
  .register(surfaces, {
    option: {
      name: 'single-use',
      value: 'YES|NO',
      doc: 'whether each token can be exchanged once only (default: yes)',
      read: yesOrNo,
    },
    control: {
      kind: 'select',
      label: 'Each token can be exchanged',
      chosen: 'yes',
      choices: [
        { value: 'yes', text: 'Once' },
        { value: 'no', text: 'Repeatedly, as Kubernetes needs it' },
      ],
    },
  });

const ruleFields = {
  issuer: issuerField,
  subject: subjectField,
  claim: optional(claimField),
  audience: optional(audienceField),
  keysUrl: optional(keysUrlField),
  jwks: optional(issuerKeysField),
  longestLifeSeconds: orDefault(longestLifeField, defaultLifeSeconds),
  isSingleUse: orDefault(singleUseField, true),
};
const ruleSchema = z.object(ruleFields);
type Rule = z.output<typeof ruleSchema>;

export const workloadCreate = organizationOperation({
  name: 'workload.create',
  doc: 'Create a client without a secret for a workload, which proves itself with tokens of its platform',
  route: { method: 'POST', path: '/organizations/{organization}/workloads', made: clientPath },
  permission: 'client.manage',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server
      .optional()
      .describe('The only server that it can use; by default all of the organization')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Server',
          subject: 'The server',
          help: 'The name of the only server that it can use. Empty: all of this organization.',
          attributes: { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none' },
        },
      }),
    name: nameField,
    scopes: scopesOrUsual,
    tools: maybeToolSelection,
    ...ruleFields,
  }),
  output: clientViewSchema,
  target: (_, made) => made && target(made),
  async ahead(input, _, ports) {
    await checkUrls(input, ports);
    return {};
  },
  async run(input, { organization, actor }, ports) {
    const { server, name, scopes, tools } = input;
    await checkIssuer(input.issuer, organization.id, ports);
    const serverId =
      server === undefined ? undefined : (await ownServer(organization.name, server, ports)).id;
    const clientId = `client_${randomBase62(24)}`;
    await insertClient(ports.db, {
      id: clientId,
      name,
      serverId,
      organizationId: organization.id,
      scopes,
      tools,
      redirectUris: [],
      jwks: undefined,
      authenticationRequired: true,
      secretHash: undefined,
      secretHint: undefined,
      createdBy: actorName(actor),
      createdAt: ports.clock.now(),
    });
    await insertTrustRule(ports.db, toTrustRule(clientId, input));
    return toClientView(await ownClient(organization.name, clientId, ports));
  },
});

export const workloadUpdate = organizationOperation({
  name: 'workload.update',
  doc: 'Replace the rule that says which workload is a client; tokens that were issued stay valid for an hour at most',
  route: { method: 'PATCH', path: `${clientPath}/workload` },
  permission: 'client.manage',
  input: z.strictObject({ ...ofClient, ...ruleFields }),
  output: clientViewSchema,
  target,
  async ahead(input, _, ports) {
    await checkUrls(input, ports);
    return {};
  },
  async run(input, { organization }, ports) {
    const { clientId } = input;
    await ownClient(organization.name, clientId, ports);
    await checkIssuer(input.issuer, organization.id, ports);
    if (!(await findTrustRule(ports.db, clientId))) {
      throw conflict('the client is not one of a workload');
    }
    await updateTrustRule(ports.db, toTrustRule(clientId, input));
    return toClientView(await ownClient(organization.name, clientId, ports));
  },
});

export const workloadOperations: readonly Operation[] = [workloadCreate, workloadUpdate];

function toTrustRule(clientId: string, rule: Rule): TrustRule {
  const [, name = '', value = ''] = /^([^=]+)=(.+)$/.exec(rule.claim ?? '') ?? [];
  return {
    clientId,
    issuer: rule.issuer,
    keysUrl: rule.keysUrl,
    jwks: rule.jwks && JSON.stringify(rule.jwks),
    audience: rule.audience,
    subject: rule.subject,
    claim: rule.claim === undefined ? undefined : { name, value },
    longestLifeSeconds: rule.longestLifeSeconds,
    isSingleUse: rule.isSingleUse,
  };
}

/** @throws {AdministrationRefusal} `invalid` */
async function checkUrls(
  { issuer, keysUrl, jwks }: Rule,
  { providerSetup }: Pick<AdministrationPorts, 'providerSetup'>,
): Promise<void> {
  if (keysUrl !== undefined && jwks) {
    throw invalidField('jwks', 'cannot be given beside a URL of keys');
  }
  // If keys are given, nothing is read from the issuer, which may be a name in a private network.
  if (keysUrl === undefined && jwks) {
    if (!URL.canParse(issuer)) throw invalidField('issuer', 'is not a URL');
    return;
  }
  const problem = await providerSetup.problemOf(keysUrl ?? issuer);
  if (problem !== undefined)
    throw invalidField(keysUrl === undefined ? 'issuer' : 'keysUrl', problem);
}

/** @throws {AdministrationRefusal} `invalid` for the issuer of an identity provider, which vouches for people, not for workloads */
async function checkIssuer(issuer: string, organizationId: string, { db }: WithDb): Promise<void> {
  if (!(await isProviderIssuer(db, organizationId, issuer))) return;
  throw invalidField('issuer', 'is the issuer of an identity provider of this organization');
}

const printedOfWorkload = [
  'clientId',
  'name',
  'server',
  'scopes',
  { tools: selectionCell },
  'trustedIssuer',
  'trustedSubject',
] as const;

export const workloadCommands: readonly Command[] = [
  command(organizationClientCreate, {
    words: 'client create-for-organization',
    positionals: [organizationArgument],
    doc: 'create an OAuth client of a whole organization, for identity assertions only; its secret is shown once',
    prints: ['clientId', 'clientSecret', 'name', 'scopes', { tools: selectionCell }],
    secret: 'client_secret',
  }),
  command(workloadCreate, {
    words: 'workload create',
    positionals: [organizationOrServerArgument],
    options: [outboundHost],
    doc: 'create a client without a secret for a workload, such as a job of a CI system',
    prints: printedOfWorkload,
  }),
  command(workloadUpdate, {
    words: 'workload update',
    positionals: [organizationArgument, textArgument('ID', 'clientId')],
    options: [outboundHost],
    doc: 'replace the rule that says which workload is a client',
    prints: printedOfWorkload,
  }),
];
