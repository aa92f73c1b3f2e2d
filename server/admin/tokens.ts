import { z } from 'zod';

import { hashSecret, mintSecret, randomBase62, secretHint } from '#secrets/secrets';
import { isRecentProof } from '#accounts/sessions';
import {
  insertPersonalToken,
  listPersonalTokens,
  revokePersonalToken,
  type PersonalToken,
} from '#db/personal-tokens';
import { findUser } from '#db/people';
import {
  type Actor,
  actorName,
  personalOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { AdministrationRefusal, conflict, notFound } from './refusal.ts';
import { expiry, expiryChoices, fields, readDays, surfaces, nameControl } from './fields.ts';
import { command, listCommand, type Command } from './command.ts';
import { personArgument, textArgument } from './positionals.ts';
import { viewOf } from './views.ts';

const mostDays = 365;
const usualDays = 90;
const mostTokens = 50;
const secondsADay = 86_400;

const ofPerson = {
  userId: z
    .string()
    .max(100)
    .optional()
    .describe('The owner of the tokens; only the operator can name another person'),
};

const tokenViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    hint: z.string().describe('Prefix and last four characters'),
    createdAt: fields.at,
    expiresAt: fields.at,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'PersonalToken' });

const toTokenView = (token: PersonalToken) => viewOf(tokenViewSchema, token);

export const tokenList = personalOperation({
  name: 'token.list',
  doc: 'List personal tokens, newest first',
  route: { method: 'GET', path: '/tokens' },
  input: z.strictObject(ofPerson),
  output: z.object({ items: z.array(tokenViewSchema) }),
  async run({ userId }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    return { items: (await listPersonalTokens(ports.db, owner)).map(toTokenView) };
  },
});

export const tokenCreate = personalOperation({
  name: 'token.create',
  doc: 'Create a personal token for the admin API with the permissions of its person; only this response contains it',
  input: z.strictObject({
    ...ofPerson,
    name: fields.name.clone().register(surfaces, {
      option: { value: 'NAME', doc: 'what uses the token' },
      control: nameControl('What uses it. Example: Nightly report'),
    }),
    expiresInDays: fields
      .days(1, mostDays)
      .default(usualDays)
      .register(surfaces, {
        option: {
          value: 'DAYS',
          fallback: String(usualDays),
          doc: `in how many days it expires, up to ${mostDays}`,
          read: readDays(/^[1-9]\d{0,2}$/),
        },
        control: {
          kind: 'select',
          name: 'expiry',
          label: 'Expires',
          subject: 'The lifetime',
          chosen: String(usualDays),
          choices: expiryChoices,
        },
      }),
    expiresOn: fields.expiresOn,
  }),
  output: tokenViewSchema.extend({ token: z.string() }).meta({ id: 'CreatedPersonalToken' }),
  target: (_, made) => made && `token:${made.id}`,
  async run({ userId, name, ...chosenExpiry }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    const createdAt = ports.clock.now();
    // A token must not create another token that outlives it, and an unattended browser must not create any.
    const isProved =
      actor.type === 'operator' ||
      (actor.provedAt !== undefined && isRecentProof({ createdAt: actor.provedAt }, createdAt));
    if (!isProved) throw new AdministrationRefusal('proof_old', 'this requires a recent sign-in');
    const token = mintSecret('pat_');
    const made = {
      id: `token_${randomBase62(16)}`,
      userId: owner,
      name,
      hint: secretHint(token),
      createdAt,
      expiresAt: expiry(chosenExpiry, mostDays, createdAt) ?? createdAt + usualDays * secondsADay,
      createdBy: actorName(actor),
      factors: actor.type === 'operator' ? 2 : actor.factors,
    };
    if (!(await insertPersonalToken(ports.db, { ...made, hash: hashSecret(token) }, mostTokens))) {
      throw conflict(`there are already ${mostTokens} active tokens: revoke one first`);
    }
    return { ...toTokenView({ ...made, lastUsedAt: undefined, revokedAt: undefined }), token };
  },
});

export const tokenRevoke = personalOperation({
  name: 'token.revoke',
  doc: 'Revoke a personal token immediately; this cannot be undone',
  route: { method: 'DELETE', path: '/tokens/{tokenId}' },
  input: z.strictObject({ ...ofPerson, tokenId: z.string().max(100) }),
  output: tokenViewSchema,
  target: ({ tokenId }) => `token:${tokenId}`,
  async run({ userId, tokenId }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    const find = async () =>
      (await listPersonalTokens(ports.db, owner)).find(({ id }) => id === tokenId);
    if (!(await find())) throw notFound('token');
    if (!(await revokePersonalToken(ports.db, owner, tokenId, ports.clock.now()))) {
      throw conflict('the token is already revoked');
    }
    const revoked = await find();
    if (!revoked) throw notFound('token');
    return toTokenView(revoked);
  },
});

/** The owner of the tokens: the actor, or the person that the operator names. */
async function ownerOf(userId: string | undefined, actor: Actor, { db }: WithDb): Promise<string> {
  const wanted = actor.type === 'person' ? (userId ?? actor.userId) : (userId ?? '');
  if (actor.type === 'person' && wanted !== actor.userId) throw notFound('person');
  if (!(await findUser(db, wanted))) throw notFound('person');
  return wanted;
}

export const tokenOperations: readonly Operation[] = [tokenList, tokenCreate, tokenRevoke];

export const tokenCommands: readonly Command[] = [
  command(tokenCreate, {
    words: 'token create',
    positionals: [personArgument],
    doc: 'create a personal token for the admin API with the permissions of the person; it is shown once',
    prints: ['id', 'name', 'token', 'expiresAt'],
    secret: 'token',
  }),
  listCommand(tokenList, {
    words: 'token list',
    positionals: [personArgument],
    doc: 'list the personal tokens of a person',
    prints: ['id', 'name', { token: 'hint' }, 'createdAt', 'lastUsedAt', 'expiresAt', 'revokedAt'],
    empty: 'no personal tokens: latchkey-server token create EMAIL --name NAME',
  }),
  command(tokenRevoke, {
    words: 'token revoke',
    positionals: [personArgument, textArgument('ID', 'tokenId')],
    doc: 'revoke a personal token of a person immediately',
    prints: ['id', 'revokedAt'],
  }),
];
