import {
  userCreate as create,
  userRemove as remove,
  userResetLink as resetLink,
} from '#administration/user-operations';
import { checkBaseUrl } from '#config/base-url';
import { baseUrl, json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { isEmail } from '#people/email';
import { passwordProblem } from '#people/password-problem';
import { isRole, roles } from '#people/role';
import { administer } from './administer.ts';
import type { Command } from './command.ts';
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
  doc: 'make a person who can sign in, by a password from the terminal or stdin; who can already joins besides',
  async run(input, { out, readPassword, hashing, ...ports }) {
    const { stores } = ports;
    const email = input.positionals[0] ?? '';
    if (!isEmail(email)) throw new UsageError(`'${email}' is not an e-mail address`);
    const role = input.must('role');
    if (!isRole(role))
      throw new UsageError(`--role '${role}' is unknown`, `roles are ${roles.join(', ')}`);
    const organization = await findOrganization(input.must('organization'), stores);
    const known = await stores.users.byEmail(email);
    const hash = known ? undefined : await newPasswordHash(email, { readPassword, hashing });
    const place = { organization: organization.name, email, role };
    const user = await administer(create, { ...place, ...(hash && { passwordHash: hash }) }, ports);
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
  options: [baseUrl, json],
  doc: 'make a link that sets a new password, once, within an hour',
  async run(input, { out, ...ports }) {
    const base = checkBaseUrl(input.must('base-url'));
    const { id: userId } = await findUser(input.positionals[0] ?? '', ports.stores);
    const { email, path } = await administer(resetLink, { userId }, ports);
    const facts = { email, link: base + path };
    printMade(facts, { json: input.flag('json'), secret: 'link', out });
  },
};

export const userRemove: Command = {
  words: 'user remove',
  positionals: ['EMAIL'],
  options: [json],
  doc: 'remove a person, and everything they allowed, at once',
  async run(input, { out, ...ports }) {
    const user = await findUser(input.positionals[0] ?? '', ports.stores);
    const { id, email } = await administer(remove, { userId: user.id }, ports);
    const facts = { id, email, removed_at: ports.clock.now() };
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
