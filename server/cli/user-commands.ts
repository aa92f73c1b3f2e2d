import type { Clock } from '#clock/clock';
import { checkBaseUrl } from '#config/base-url';
import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { isEmail } from '#people/email';
import { makeLink } from '#people/one-time-link';
import { passwordProblem } from '#people/password-problem';
import { isRole, roles } from '#people/role';
import { newUserId } from '#people/set-up';
import type { User } from '#people/user';
import type { Command, Stores } from './command.ts';
import { findUser } from './find-user.ts';
import { findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const userCreate: Command = {
  words: 'user create',
  positionals: ['EMAIL'],
  options: [
    { name: 'organization', value: 'ORG', required: true, doc: 'where the person belongs' },
    { name: 'role', value: 'ROLE', required: true, doc: `one of ${roles.join(', ')}` },
    json,
  ],
  doc: 'make a person who can sign in; the password comes from the terminal or stdin',
  async run(input, { stores, clock, out, readPassword, hashing }) {
    const email = input.positionals[0] ?? '';
    if (!isEmail(email)) throw new UsageError(`'${email}' is not an e-mail address`);
    const role = input.must('role');
    if (!isRole(role))
      throw new UsageError(`--role '${role}' is unknown`, `roles are ${roles.join(', ')}`);
    const organization = await findOrganization(input.must('organization'), stores);
    const known = await stores.users.byEmail(email);
    const hash = known ? undefined : await newPasswordHash(email, { readPassword, hashing });
    const user = known ?? { id: newUserId(), email, createdAt: clock.now() };
    if (!(await stores.users.add(user, { organizationId: organization.id, role }))) {
      throw new CommandError(`${email} belongs to ${organization.name} already`);
    }
    if (hash !== undefined) await stores.passwords.set(user.id, hash);
    await note('user.create', user, organization.name, { stores, clock });
    const facts = { id: user.id, email: user.email, organization: organization.name, role };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const userList: Command = {
  words: 'user list',
  positionals: [],
  options: [json],
  doc: 'list everybody who can sign in',
  async run(input, { stores, out }) {
    const people = await stores.users.list();
    const rows = people.map(({ user, memberships }) => ({
      email: user.email,
      id: user.id,
      roles: memberships.map(({ organization, role }) => `${organization}:${role}`),
      created_at: user.createdAt,
    }));
    const empty = 'nobody yet: latchkey-server user create EMAIL --organization ORG --role owner';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const userResetLink: Command = {
  words: 'user reset-link',
  positionals: ['EMAIL'],
  options: [
    {
      name: 'base-url',
      value: 'URL',
      fallback: 'http://127.0.0.1:8787',
      doc: 'the public URL of the server',
    },
    json,
  ],
  doc: 'make a link that sets a new password, once, within an hour',
  async run(input, { stores, clock, out }) {
    const base = checkBaseUrl(input.must('base-url'));
    const user = await findUser(input.positionals[0] ?? '', stores);
    const purpose = { type: 'reset', userId: user.id } as const;
    const path = await makeLink(purpose, { links: stores.links, clock });
    await note('user.reset-link', user, undefined, { stores, clock });
    const facts = { email: user.email, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out });
  },
};

export const userRemove: Command = {
  words: 'user remove',
  positionals: ['EMAIL'],
  options: [json],
  doc: 'remove a person, and everything they allowed, at once',
  async run(input, { stores, clock, out }) {
    const user = await findUser(input.positionals[0] ?? '', stores);
    await stores.users.remove(user.id);
    await note('user.remove', user, undefined, { stores, clock });
    const facts = { id: user.id, email: user.email, removed_at: clock.now() };
    printMade(facts, { json: input.flag('json'), out });
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
    `the password does not do: ${problem.charAt(0).toLowerCase()}${problem.slice(1, -1)}`,
    'type it at the prompt, or give it as one line on stdin',
  );
}

type PasswordReader = () => Promise<{ password: string; repeated: string }>;
type PasswordMaker = { hash(password: string): Promise<string> };

async function note(
  action: string,
  user: User,
  organization: string | undefined,
  { stores, clock }: { stores: Pick<Stores, 'audit'>; clock: Clock },
): Promise<void> {
  await stores.audit.append({
    at: clock.now(),
    actor: 'operator',
    organization,
    action,
    target: `user:${user.id}`,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
}
