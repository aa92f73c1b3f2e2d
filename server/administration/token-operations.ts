import { z } from 'zod';

import type { PersonalToken } from '#credentials/personal-token';
import { hashSecret, mintSecret, randomBase62, secretHint } from '#credentials/secret-format';
import { isRecentProof } from '#people/recent-proof';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { personalOperation } from './operation.ts';

const mostDays = 365;
const usualDays = 90;
const mostTokens = 50;
const secondsADay = 86_400;

const ofPerson = {
  userId: z.string().max(100).optional().describe('For the operator: whose; others have their own'),
};

const shownToken = z
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

function show(token: PersonalToken): z.output<typeof shownToken> {
  const { id, name, hint, createdAt, expiresAt } = token;
  const lastUsedAt = token.lastUsedAt ?? null;
  return { id, name, hint, createdAt, expiresAt, lastUsedAt, revokedAt: token.revokedAt ?? null };
}

export const tokenList = personalOperation({
  name: 'token.list',
  doc: 'List personal tokens, the newest first',
  route: { method: 'GET', path: '/tokens' },
  input: z.strictObject(ofPerson),
  output: z.object({ items: z.array(shownToken) }),
  async run({ userId }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    return { items: (await ports.personalTokens.list(owner)).map(show) };
  },
});

export const tokenCreate = personalOperation({
  name: 'token.create',
  doc: 'Make a personal token for the admin API; it may do what its person may, and is shown this once',
  input: z.strictObject({
    ...ofPerson,
    name: fields.name,
    expiresInDays: fields.days(1, mostDays).default(usualDays),
  }),
  output: shownToken.extend({ token: z.string() }).meta({ id: 'CreatedPersonalToken' }),
  target: (_, made) => made && `token:${made.id}`,
  async run({ userId, name, expiresInDays }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    const createdAt = ports.clock.now();
    // A token must not make another one that outlives it, nor an open browser that somebody found.
    const isProved =
      actor.type === 'operator' ||
      (actor.provedAt !== undefined && isRecentProof({ createdAt: actor.provedAt }, createdAt));
    if (!isProved) throw new AdministrationRefusal('proof_old', 'this takes a recent sign-in');
    const token = mintSecret('pat_');
    const made = {
      id: `token_${randomBase62(16)}`,
      userId: owner,
      name,
      hint: secretHint(token),
      createdAt,
      expiresAt: createdAt + expiresInDays * secondsADay,
      factors: actor.type === 'operator' ? 2 : actor.factors,
    };
    if (!(await ports.personalTokens.add({ ...made, hash: hashSecret(token) }, mostTokens))) {
      const why = `there are ${mostTokens} tokens that count already: revoke one first`;
      throw new AdministrationRefusal('conflict', why);
    }
    return { ...show({ ...made, lastUsedAt: undefined, revokedAt: undefined }), token };
  },
});

export const tokenRevoke = personalOperation({
  name: 'token.revoke',
  doc: 'Revoke a personal token, at once and for good',
  route: { method: 'DELETE', path: '/tokens/{tokenId}' },
  input: z.strictObject({ ...ofPerson, tokenId: z.string().max(100) }),
  output: shownToken,
  target: ({ tokenId }) => `token:${tokenId}`,
  async run({ userId, tokenId }, { actor }, ports) {
    const owner = await ownerOf(userId, actor, ports);
    const find = async () =>
      (await ports.personalTokens.list(owner)).find(({ id }) => id === tokenId);
    if (!(await find())) throw notFound('token');
    if (!(await ports.personalTokens.revoke(owner, tokenId, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the token was revoked before');
    }
    const revoked = await find();
    if (!revoked) throw notFound('token');
    return show(revoked);
  },
});

/** Whose tokens it is about: a person's own, or those of whom the operator names. */
async function ownerOf(
  userId: string | undefined,
  actor: Actor,
  { users }: Pick<AdministrationPorts, 'users'>,
): Promise<string> {
  const wanted = actor.type === 'person' ? (userId ?? actor.userId) : (userId ?? '');
  if (actor.type === 'person' && wanted !== actor.userId) throw notFound('person');
  if (!(await users.byId(wanted))) throw notFound('person');
  return wanted;
}
