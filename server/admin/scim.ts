import { endpointBase } from '#config/option';
import { z } from 'zod';

import { countScimGroups } from '#db/scim-groups';
import {
  clearScimFaults,
  insertScimToken,
  listScimFaults,
  listScimTokens,
  revokeScimToken,
  type ScimToken,
} from '#db/scim-tokens';
import { countScimUsers, listWaiting } from '#db/scim-users';
import type { EpochSeconds } from '#model/clock';
import { hashSecret, mintSecret, randomBase62, secretHint } from '#secrets/secrets';
import { command, listCommand, type Command } from './command.ts';
import { fields, expiresInField, readDays, surfaces } from './fields.ts';
import {
  type Actor,
  actorName,
  organizationOperation,
  type Operation,
  type WithDbAndClock,
} from './operation.ts';
import { checkRecent } from './people.ts';
import { organizationArgument, organizationIn, textArgument } from './positionals.ts';
import { conflict, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostTokens = 2;
const mostDays = 3650;
const secondsADay = 86_400;
const mostWaiting = 100;

const tokenViewSchema = z
  .object({
    id: z.string(),
    hint: z.string().describe('Prefix and last four characters'),
    status: z.enum(['active', 'expired', 'revoked']),
    createdBy: z.string().describe('The actor that created it, as in the audit log'),
    creatorLeft: z.boolean().describe('Whether that person is not a member any more'),
    createdAt: fields.at,
    expiresAt: fields.maybeAt,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'ScimToken' });

function toTokenView(token: ScimToken, now: EpochSeconds): z.output<typeof tokenViewSchema> {
  const { expiresAt, revokedAt } = token;
  const isExpired = expiresAt !== undefined && expiresAt <= now;
  return viewOf(tokenViewSchema, {
    ...token,
    status: revokedAt !== undefined ? 'revoked' : isExpired ? 'expired' : 'active',
    creatorLeft: token.isCreatorGone,
  });
}

const scimViewSchema = z
  .object({
    path: z.string().describe('The path of the SCIM endpoint below the base URL'),
    synchronizedAt: fields.maybeAt.describe('The last request of the directory, to the minute'),
    users: z.object({
      all: z.int(),
      active: z.int(),
      waiting: z.int().describe('Active ones whom no member could be found for or made of'),
    }),
    groups: z.int(),
    waiting: z
      .array(z.string())
      .describe(`The user names of those who wait, at most ${mostWaiting}`),
    tokens: z.array(tokenViewSchema).describe('Newest first'),
    errors: z
      .array(
        z
          .object({
            request: z.string().describe('What was asked, such as `POST Users`'),
            subject: z.string().describe('Whom it was about, as the directory named them'),
            problem: z.string(),
            at: fields.at.describe('When it last happened'),
            times: z.int(),
          })
          .meta({ id: 'ScimFault' }),
      )
      .describe('Requests that failed, newest first, at most 50'),
  })
  .meta({ id: 'ScimState' });

const inOrganization = { organization: fields.organization };
const path = '/organizations/{organization}/scim';
const toRead = 'provider.read';
const toManage = 'provider.manage';
const ofToken = { ...inOrganization, scimTokenId: z.string().max(100) };
const target = ({ scimTokenId: id }: { scimTokenId: string }) => `scim-token:${id}`;
const createdToken = tokenViewSchema
  .extend({ token: z.string().describe('Shown only once') })
  .meta({ id: 'CreatedScimToken' });

export const scimRead = organizationOperation({
  name: 'scim.read',
  doc: 'Read the state of SCIM: tokens, the last synchronization and its errors',
  route: { method: 'GET', path },
  permission: toRead,
  input: z.strictObject(inOrganization),
  output: scimViewSchema,
  async run(_input, { organization: { id, name } }, { db, clock }) {
    const tokens = await listScimTokens(db, id);
    const used = tokens.flatMap(({ lastUsedAt }) => lastUsedAt ?? []);
    return {
      path: `/scim/v2/${name}`,
      synchronizedAt: used.length > 0 ? Math.max(...used) : null,
      users: await countScimUsers(db, id),
      groups: await countScimGroups(db, id),
      waiting: await listWaiting(db, id, mostWaiting),
      tokens: tokens.map((token) => toTokenView(token, clock.now())),
      errors: await listScimFaults(db, id),
    };
  },
});

const lifetime = expiresInField(mostDays, {
  help: 'Provisioning stops when it expires: rotate it before.',
  chosen: '365',
  choices: [
    { value: '90', text: 'In 90 days' },
    { value: '365', text: 'In 365 days' },
    { value: '', text: 'Never' },
  ],
});

async function makeToken(
  organizationId: string,
  {
    expiresInDays,
    othersExpireInDays,
  }: { expiresInDays?: number | undefined; othersExpireInDays?: number | undefined },
  actor: Actor,
  { db, clock }: WithDbAndClock,
) {
  const now = clock.now();
  checkRecent(actor, now);
  const token = mintSecret('scim_');
  const made = {
    id: `scimtoken_${randomBase62(16)}`,
    hint: secretHint(token),
    createdBy: actorName(actor),
    createdAt: now,
    expiresAt: expiresInDays === undefined ? undefined : now + expiresInDays * secondsADay,
  };
  const othersExpireAt =
    othersExpireInDays === undefined ? undefined : now + othersExpireInDays * secondsADay;
  const limits = { most: mostTokens, othersExpireAt };
  const isAdded = await insertScimToken(
    db,
    { ...made, organizationId, hash: hashSecret(token) },
    limits,
  );
  if (!isAdded) throw conflict(`there are already ${mostTokens} active tokens: revoke one first`);
  const unused = { lastUsedAt: undefined, revokedAt: undefined, isCreatorGone: false };
  return { ...toTokenView({ ...made, ...unused }, now), token };
}

export const scimCreateToken = organizationOperation({
  name: 'scim.create-token',
  doc: 'Create a token by which a directory provisions the organization; only this response contains it',
  permission: toManage,
  input: z.strictObject({ ...inOrganization, expiresInDays: lifetime }),
  output: createdToken,
  target: (_, made) => made && target({ scimTokenId: made.id }),
  async run(input, { organization, actor }, ports) {
    const tokens = await listScimTokens(ports.db, organization.id);
    const now = ports.clock.now();
    if (tokens.some((token) => toTokenView(token, now).status === 'active')) {
      throw conflict('there is an active token: rotate it instead');
    }
    return makeToken(organization.id, input, actor, ports);
  },
});

export const scimRotateToken = organizationOperation({
  name: 'scim.rotate-token',
  doc: 'Create another token for the directory, while the one before works for a while; only this response contains it',
  permission: toManage,
  input: z.strictObject({
    ...inOrganization,
    expiresInDays: lifetime,
    othersExpireInDays: fields
      .days(0, 30)
      .default(1)
      .describe('When the token before expires: 0 is immediately')
      .register(surfaces, {
        option: {
          value: 'DAYS',
          fallback: '1',
          doc: 'in how many days the token before expires, up to 30; 0 is immediately',
          read: readDays(/^\d{1,2}$/),
        },
        control: {
          kind: 'select',
          name: 'overlap',
          label: 'The token before',
          subject: 'The end of the token before',
          chosen: '1',
          choices: [
            { value: '1', text: 'Works for one more day' },
            { value: '7', text: 'Works for seven more days' },
            { value: '0', text: 'Stops immediately' },
          ],
        },
      }),
  }),
  output: createdToken,
  target: (_, made) => made && target({ scimTokenId: made.id }),
  run: (input, { organization, actor }, ports) => makeToken(organization.id, input, actor, ports),
});

export const scimRevokeToken = organizationOperation({
  name: 'scim.revoke-token',
  doc: 'Revoke a token of the directory immediately; members stay as they are',
  route: { method: 'DELETE', path: `${path}/tokens/{scimTokenId}` },
  permission: toManage,
  input: z.strictObject(ofToken),
  output: tokenViewSchema,
  target,
  async run({ scimTokenId: tokenId }, { organization: { id } }, { db, clock }) {
    const find = async () => (await listScimTokens(db, id)).find((token) => token.id === tokenId);
    if (!(await find())) throw notFound('token');
    if (!(await revokeScimToken(db, id, tokenId, clock.now()))) {
      throw conflict('the token is already revoked');
    }
    const revoked = await find();
    if (!revoked) throw notFound('token');
    return toTokenView(revoked, clock.now());
  },
});

export const scimClearErrors = organizationOperation({
  name: 'scim.clear-errors',
  doc: 'Clear the list of failed requests of the directory',
  route: { method: 'DELETE', path: `${path}/errors` },
  permission: toManage,
  input: z.strictObject(inOrganization),
  output: z.object({}),
  async run(_input, { organization: { id } }, { db }) {
    await clearScimFaults(db, id);
    return {};
  },
});

export const scimOperations: readonly Operation[] = [
  scimRead,
  scimCreateToken,
  scimRotateToken,
  scimRevokeToken,
  scimClearErrors,
];

/** The operation of the command `scim errors`. */
const errorList = organizationOperation({
  name: 'scim.read',
  doc: scimRead.doc,
  permission: toRead,
  input: scimRead.input,
  output: z.object({ items: scimViewSchema.shape.errors }),
  run: async (input, at, ports) => ({ items: (await scimRead.run(input, at, ports)).errors }),
});

const tokenPrints = ['id', 'token', 'createdAt', 'expiresAt'] as const;

export const scimCommands: readonly Command[] = [
  command(scimCreateToken, {
    words: 'scim create-token',
    positionals: [organizationArgument],
    doc: 'create a token by which a directory provisions an organization by SCIM; it is shown once',
    prints: tokenPrints,
    secret: 'token',
    options: [endpointBase],
    hint: (_, given, { stores: { base = '{base}' } }) =>
      `the directory sends it to ${base}/scim/v2/${organizationIn(given)} as a bearer token`,
  }),
  command(scimRotateToken, {
    words: 'scim rotate-token',
    positionals: [organizationArgument],
    doc: 'create another token for the directory, while the one before works for a while',
    prints: tokenPrints,
    secret: 'token',
  }),
  command(scimRevokeToken, {
    words: 'scim revoke-token',
    positionals: [organizationArgument, textArgument('ID', 'scimTokenId')],
    doc: 'revoke a token of the directory immediately',
    prints: ['id', 'revokedAt'],
  }),
  command(scimRead, {
    words: 'scim show',
    positionals: [organizationArgument],
    doc: 'show tokens, users, groups and the last synchronization of the directory',
    prints: [
      'path',
      'synchronizedAt',
      {
        users: ({ users }) => users.all,
        active: ({ users }) => users.active,
        waiting: ({ users }) => users.waiting,
      },
      'groups',
      {
        tokens: ({ tokens }) =>
          tokens.filter(({ status }) => status === 'active').map(({ id }) => id),
      },
    ],
  }),
  listCommand(errorList, {
    words: 'scim errors',
    positionals: [organizationArgument],
    doc: 'list the requests of the directory that failed',
    prints: ['at', 'request', 'subject', 'problem', 'times'],
    empty: 'no errors',
  }),
];
