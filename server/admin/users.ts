import { z } from 'zod';

import { isEmail } from '#model/email';
import { newUserId } from '#secrets/secrets';
import { roles, isRole } from '#model/roles';
import { makeLink } from '#accounts/one-time-links';
import { announceLeaver } from '#accounts/leaving';
import {
  insertUser,
  deleteUser,
  findUser,
  findUserByEmail,
  listMemberships,
  listUsers,
} from '#db/people';
import { replacePasswordHash } from '#db/authenticators';
import {
  type Actor,
  organizationOperation,
  personalOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { conflict, forbidden, notFound } from './refusal.ts';
import { fields } from './fields.ts';
import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { passwordProblem } from '#accounts/passwords';
import { administer, type Command } from './command.ts';
import { namedOrganization, requireUser } from './positionals.ts';
import { printMade, printRows } from './print.ts';

const ofUser = { userId: z.string().max(100) };
const target = ({ userId }: { userId: string }) => `user:${userId}`;
const userViewSchema = z.object({ id: z.string(), email: z.string() }).meta({ id: 'User' });

/** Accounts are managed by their owner and the operator. Organizations manage memberships. */
const userCreate = organizationOperation({
  name: 'user.create',
  doc: 'Create an account, or add an existing account to an organization',
  permission: 'owners.manage',
  input: z.strictObject({
    organization: fields.organization,
    email: z.string().max(320).refine(isEmail, 'is not an e-mail address'),
    role: z.enum(roles),
    passwordHash: z.string().max(500).optional().describe('For a new person'),
  }),
  output: userViewSchema,
  target: (_, made) => made && target({ userId: made.id }),
  async run({ email, role, passwordHash }, { organization, actor }, { db, clock }) {
    checkOperator(actor);
    const known = await findUserByEmail(db, email);
    const user = known ?? { id: newUserId(), email, createdAt: clock.now() };
    if (!(await insertUser(db, user, { organizationId: organization.id, role }))) {
      throw conflict(`${email} already belongs to ${organization.name}`);
    }
    if (!known && passwordHash !== undefined) await replacePasswordHash(db, user.id, passwordHash);
    return { id: user.id, email: user.email };
  },
});

export const userRemove = personalOperation({
  name: 'user.remove',
  doc: 'Remove a person and all their consents immediately',
  input: z.strictObject(ofUser),
  output: userViewSchema,
  target,
  changes: ({ userId }) => userId,
  async run({ userId }, { actor }, ports) {
    checkOperator(actor);
    const user = await ownUser(userId, ports);
    const memberships = await listMemberships(ports.db, userId);
    await deleteUser(ports.db, userId);
    for (const { organizationId: id, organization: name } of memberships) {
      await announceLeaver(ports.db, { id, name }, user, ports.clock.now(), actor);
    }
    return user;
  },
});

const userResetLink = personalOperation({
  name: 'user.reset-link',
  doc: 'Create a link to set a new password; it works once, within an hour',
  input: z.strictObject(ofUser),
  output: userViewSchema.extend({
    path: z.string().describe('The path below the base URL; shown only once'),
  }),
  target,
  changes: ({ userId }) => userId,
  async run({ userId }, { actor }, ports) {
    checkOperator(actor);
    const user = await ownUser(userId, ports);
    return { ...user, path: await makeLink({ type: 'reset', userId }, ports) };
  },
});

/** @throws {AdministrationRefusal} `forbidden` */
function checkOperator(actor: Actor): void {
  if (actor.type === 'operator') return;
  throw forbidden('only the operator can change accounts');
}

/** @throws {AdministrationRefusal} `not_found` */
async function ownUser(userId: string, { db }: WithDb) {
  const user = await findUser(db, userId);
  if (user) return { id: user.id, email: user.email };
  throw notFound('person');
}

export const userOperations: readonly Operation[] = [userCreate, userRemove, userResetLink];

const createCommand: Command = {
  words: 'user create',
  positionals: ['EMAIL'],
  options: [
    { name: 'organization', value: 'ORG', required: true, doc: 'the organization of the person' },
    { name: 'role', value: 'ROLE', required: true, doc: `one of ${roles.join(', ')}` },
    json,
  ],
  doc: 'create an account with a password from the terminal or stdin, or add an existing account to an organization',
  async run(input, { out, readPassword, hashing, ...ports }) {
    const { stores } = ports;
    const email = input.positionals[0] ?? '';
    if (!isEmail(email)) throw new UsageError(`'${email}' is not an e-mail address`);
    const role = input.must('role');
    if (!isRole(role))
      throw new UsageError(`--role '${role}' is unknown`, `roles are ${roles.join(', ')}`);
    const organization = await namedOrganization(input.must('organization'), stores);
    const known = await findUserByEmail(stores.db, email);
    const hash = known ? undefined : await newPasswordHash(email, { readPassword, hashing });
    const place = { organization: organization.name, email, role };
    const user = await administer(
      userCreate,
      { ...place, ...(hash && { passwordHash: hash }) },
      ports,
    );
    const facts = { id: user.id, email: user.email, organization: organization.name, role };
    printMade(facts, { json: input.flag('json'), out });
  },
};

const listCommand: Command = {
  words: 'user list',
  positionals: [],
  options: [json],
  doc: 'list all people who can sign in',
  async run(input, { stores, out }) {
    const people = await listUsers(stores.db);
    const rows = people.map(({ user, memberships }) => ({
      email: user.email,
      id: user.id,
      roles: memberships.map(({ organization, role }) => `${organization}:${role}`),
      created_at: user.createdAt,
    }));
    const empty =
      'no people yet: latchkey-server user create EMAIL --organization ORG --role owner';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

const resetLinkCommand: Command = {
  words: 'user reset-link',
  positionals: ['EMAIL'],
  options: [baseUrl, json],
  doc: 'create a link to set a new password; it works once, within an hour',
  async run(input, { out, ...ports }) {
    const base = checkBaseUrl(input.must('base-url'));
    const { id: userId } = await requireUser(input.positionals[0] ?? '', ports.stores);
    const { email, path } = await administer(userResetLink, { userId }, ports);
    const facts = { email, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out });
  },
};

async function newPasswordHash(
  email: string,
  { readPassword, hashing }: { readPassword: PasswordReader; hashing: PasswordMaker },
): Promise<string> {
  const { password, repeated } = await readPassword();
  const problem = passwordProblem(password, repeated, email);
  if (problem === undefined) return hashing.hash(password);
  throw new CommandError(
    `the password was rejected: ${problem.charAt(0).toLowerCase()}${problem.slice(1, -1)}`,
    'type it at the prompt, or send it as one line on stdin',
  );
}

type PasswordReader = () => Promise<{ password: string; repeated: string }>;
type PasswordMaker = { hash(password: string): Promise<string> };

export const userCommands = {
  create: createCommand,
  list: listCommand,
  resetLink: resetLinkCommand,
};
