import { isIP } from 'node:net';
import { z } from 'zod';

import { readNamedSecret } from '#config/named-file';
import {
  countMails,
  deleteMailServer,
  findMailServer,
  hurryMails,
  insertMails,
  listMails,
  type Mail,
  type MailServer,
  mailSecurities,
  type NewMail,
  replaceMailServer,
} from '#db/mail';
import type { Organization } from '#db/organizations';
import { findUser } from '#db/people';
import type { MailContent } from '#mail/compose-mail';
import { isDomain, isEmail } from '#model/email';
import { type FieldControl, fields, surfaces, wholeNumber, words } from './fields.ts';
import {
  type Actor,
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  type WithDb,
  type WithDbAndClock,
} from './operation.ts';
import { pageOf, pageNumberFields, toPageView } from './paging.ts';
import { AdministrationRefusal, conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const inOrganization = { organization: fields.organization };
const serverPath = '/organizations/{organization}/mail-server';
const mailPath = '/organizations/{organization}/mail';
/** How many mails of an organization may wait at a time. */
export const mostWaiting = 5000;
/** Notices are queued only up to this many waiting mails, so that they leave room for invitations. */
const mostWaitingForNotices = 1000;

const mailServerViewSchema = z
  .object({
    host: z.string(),
    port: z.int(),
    security: z.enum(mailSecurities),
    user: z.string().nullable(),
    hasPassword: z.boolean(),
    from: z.string(),
    changedAt: fields.at,
    lastSuccessAt: fields.maybeAt,
    lastFailureAt: fields.maybeAt,
    lastFailure: z.string().nullable().describe('A predicate such as "could not be reached"'),
    nextAttemptAt: fields.maybeAt.describe('When it is tried again after a failure'),
    mails: z
      .object({ waiting: z.int(), sent: z.int(), refused: z.int() })
      .describe(
        'How many mails wait, and how many the server accepted or refused in the last 30 days',
      ),
  })
  .meta({ id: 'MailServer' });

export type MailServerView = z.output<typeof mailServerViewSchema>;

async function toServerView(
  server: MailServer,
  { db, clock }: WithDbAndClock,
): Promise<MailServerView> {
  const { lastFailure, nextAttemptAt, attempts } = server;
  return viewOf(mailServerViewSchema, {
    ...server,
    hasPassword: server.sealedPassword !== undefined,
    lastFailureAt: lastFailure?.at,
    lastFailure: lastFailure?.why,
    nextAttemptAt: attempts > 0 ? Math.max(nextAttemptAt, clock.now()) : null,
    mails: await countMails(db, server.organizationId),
  });
}

/** @throws {AdministrationRefusal} `not_found` */
async function ownServer({ id, name }: Organization, { db }: WithDb): Promise<MailServer> {
  const server = await findMailServer(db, id);
  if (server) return server;
  throw new AdministrationRefusal('not_found', `${name} has no mail server yet`);
}

export const mailServerRead = organizationOperation({
  name: 'mail.read-server',
  doc: 'Read the mail server of an organization and its last result',
  route: { method: 'GET', path: serverPath },
  permission: 'mail.read',
  input: z.strictObject(inOrganization),
  output: mailServerViewSchema,
  run: async (_input, { organization }, ports) =>
    toServerView(await ownServer(organization, ports), ports),
});

const hostControl = {
  kind: 'text',
  label: 'Host',
  subject: 'The host',
  help: 'The SMTP server, such as smtp.example.com. To use a host in your own network, ask the operator of Latchkey to allow it.',
  attributes: { autocomplete: 'off', maxlength: '253', spellcheck: 'false' },
} as const satisfies FieldControl;

export const mailServerSet = organizationOperation({
  name: 'mail.set-server',
  doc: 'Set the SMTP server that sends invitations and notices of an organization. An omitted password is kept if host, port and user are unchanged and encryption is not turned off',
  route: { method: 'PATCH', path: serverPath },
  permission: 'mail.manage',
  input: z.strictObject({
    ...inOrganization,
    host: z
      .string()
      .trim()
      .toLowerCase()
      .refine(
        (host) => isIP(host) !== 0 || isDomain(host) || host === 'localhost',
        'is not the name or address of a host, for example smtp.example.com',
      )
      .register(surfaces, {
        control: hostControl,
        option: { value: 'HOST', doc: 'the SMTP server' },
      }),
    port: wholeNumber(1, 65_535).register(surfaces, {
      option: {
        value: 'PORT',
        doc: 'its port, 1 to 65535: usually 587 with starttls, 465 with tls',
        read: Number,
      },
      control: {
        kind: 'text',
        label: 'Port',
        subject: 'The port',
        help: 'Usually 587 with STARTTLS, and 465 with TLS from the start.',
        attributes: { inputmode: 'numeric', maxlength: '5', autocomplete: 'off' },
      },
    }),
    security: z.enum(mailSecurities).register(surfaces, {
      option: {
        value: 'HOW',
        doc: `how the connection is encrypted: ${mailSecurities.join(', ')}`,
      },
      control: {
        kind: 'radio',
        label: 'Encryption',
        subject: 'The encryption',
        chosen: 'starttls',
        choices: [
          {
            value: 'starttls',
            text: 'STARTTLS',
            help: 'The connection is encrypted before any mail is sent. If that fails, nothing is sent.',
          },
          { value: 'tls', text: 'TLS from the start' },
          {
            value: 'none',
            text: 'None',
            help: 'Only for a host in your own network that the operator allowed.',
          },
        ],
      },
    }),
    user: words(200)
      .optional()
      .describe('Without it, the server is used without signing in')
      .register(surfaces, {
        option: { value: 'NAME', doc: 'the user to sign in as (default: none)' },
        control: {
          kind: 'text',
          label: 'User',
          subject: 'The user',
          attributes: { maxlength: '200', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
    password: z
      .string()
      .max(500)
      .regex(/^\P{Cc}*$/u, 'must not contain line breaks or other control characters')
      .optional()
      .register(surfaces, {
        option: {
          name: 'password-file',
          value: 'FILE',
          doc: 'a file with the password (default: the stored one, if host, port and user are unchanged and encryption is not turned off)',
          read: readNamedSecret,
        },
        control: {
          kind: 'text',
          type: 'password',
          label: 'Password',
          subject: 'The password',
          help: 'Stored encrypted, and never shown again. Leave it empty to keep the stored one.',
          optional: 'unmarked',
          attributes: { autocomplete: 'new-password' },
        },
      }),
    from: z
      .string()
      .trim()
      .refine(isEmail, 'is not an e-mail address, for example latchkey@example.com')
      .register(surfaces, {
        option: { value: 'EMAIL', doc: 'the address that mails come from' },
        control: {
          kind: 'text',
          label: 'From',
          subject: 'The sender',
          help: 'The address that e-mails come from. The title of the organization is shown beside it.',
          attributes: { maxlength: '254', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
  }),
  output: mailServerViewSchema,
  target: ({ host, port }) => `${host}:${port}`,
  async ahead({ host, port, security }, _at, { mailSetup }) {
    const found = await mailSetup.problemOf({ host, port, security });
    if (found) throw invalidField(found.field, found.problem);
    return {};
  },
  async run({ host, port, security, user, password, from }, { organization }, ports) {
    const before = await findMailServer(ports.db, organization.id);
    const settings = { host, port, security, user: user || undefined, from };
    const sealedPassword = password
      ? ports.mailSetup.sealPassword(organization.id, password)
      : keptPassword(settings, before);
    if (settings.user !== undefined && sealedPassword === undefined) {
      const why = before?.sealedPassword
        ? 'is needed again, because host, port or user changed, or encryption was turned off'
        : 'is missing';
      throw invalidField('password', why);
    }
    if (settings.user === undefined && password) {
      throw invalidField('user', 'is missing, but there is a password');
    }
    const at = ports.clock.now();
    await replaceMailServer(ports.db, organization.id, { ...settings, sealedPassword }, at);
    return toServerView(await ownServer(organization, ports), ports);
  },
});

/** The stored password, unless it would go to another server, be used for another user, or lose its encryption in transit. */
function keptPassword(
  { host, port, security, user }: Pick<MailServer, 'host' | 'port' | 'security' | 'user'>,
  before: MailServer | undefined,
): string | undefined {
  if (!before || user === undefined) return undefined;
  const isSame = before.host === host && before.port === port && before.user === user;
  const isBared = security === 'none' && before.security !== 'none';
  return isSame && !isBared ? before.sealedPassword : undefined;
}

export const mailServerRemove = organizationOperation({
  name: 'mail.remove-server',
  doc: 'Remove the mail server of an organization, and the mails that wait for it',
  route: { method: 'DELETE', path: serverPath },
  permission: 'mail.manage',
  input: z.strictObject(inOrganization),
  output: z.object({ host: z.string() }),
  target: (_, done) => done?.host,
  async run(_input, { organization }, ports) {
    const { host } = await ownServer(organization, ports);
    await deleteMailServer(ports.db, organization.id);
    return { host };
  },
});

export const mailTest = organizationOperation({
  name: 'mail.test',
  doc: 'Send a test message to yourself now, and return what the mail server did',
  route: { method: 'POST', path: `${serverPath}/test` },
  permission: 'mail.manage',
  input: z.strictObject({
    ...inOrganization,
    to: z
      .string()
      .trim()
      .refine(isEmail, 'is not an e-mail address')
      .optional()
      .describe('For the operator, who has no address; everyone else gets the message themselves'),
  }),
  output: z
    .object({
      isSent: z.boolean(),
      to: z.string(),
      words: z.string().describe('The result as a predicate, with the words of the server'),
    })
    .meta({ id: 'MailTest' }),
  async ahead({ to }, { organization, actor }, ports) {
    const server = await ownServer(organization, ports);
    const address = await testAddress(to, actor, ports);
    const { id: organizationId } = organization;
    const at = { organizationId, organization: server.organization, address };
    const outcome = await ports.mailSetup.test(server, at);
    return { mailSetup: { ...ports.mailSetup, test: async () => outcome } };
  },
  async run({ to }, { organization, actor }, ports) {
    const server = await ownServer(organization, ports);
    const address = await testAddress(to, actor, ports);
    const at = { organizationId: organization.id, organization: server.organization, address };
    return { to: address, ...(await ports.mailSetup.test(server, at)) };
  },
});

/** A person gets the test themselves, so that no one can use the server to write to others. */
async function testAddress(to: string | undefined, actor: Actor, { db }: WithDb): Promise<string> {
  if (actor.type === 'operator') {
    if (to === undefined) throw invalidField('to', 'is missing');
    return to;
  }
  const user = await findUser(db, actor.userId);
  if (!user) throw notFound('person');
  if (to !== undefined && to !== user.email) throw invalidField('to', 'is not your own address');
  return user.email;
}

const mailViewSchema = z
  .object({
    id: z.string(),
    kind: z.enum(['invitation', 'reminder', 'notice']),
    recipient: z.string(),
    status: z.enum(['waiting', 'sent', 'refused']).describe('`sent`: the mail server accepted it'),
    answer: z.string().nullable().describe('What the mail server did last, as a predicate'),
    attempts: z.int(),
    createdAt: fields.at,
    endedAt: fields.maybeAt,
    nextAttemptAt: fields.maybeAt,
  })
  .meta({ id: 'Mail' });

export type MailView = z.output<typeof mailViewSchema>;

function toMailView(mail: Mail): MailView {
  const nextAttemptAt = mail.status === 'waiting' ? mail.nextAttemptAt : null;
  return viewOf(mailViewSchema, { ...mail, nextAttemptAt });
}

export const mailList = organizationOperation({
  name: 'mail.list',
  doc: 'List the mails of an organization that wait, and those of the last 30 days, newest first',
  route: { method: 'GET', path: mailPath },
  permission: 'mail.read',
  input: z.strictObject({
    ...inOrganization,
    status: z.enum(['waiting', 'sent', 'refused']).optional().describe('All if omitted'),
    ...pageNumberFields,
  }),
  output: pageOf(mailViewSchema),
  async run({ status, page, limit }, { organization }, { db }) {
    const part = { status, limit, offset: (page - 1) * limit };
    return toPageView(await listMails(db, organization.id, part), { page, limit }, toMailView);
  },
});

export const mailRetry = organizationOperation({
  name: 'mail.retry',
  doc: 'Try to send all waiting mails now, including those that failed before',
  route: { method: 'POST', path: `${mailPath}/retry` },
  permission: 'people.manage',
  input: z.strictObject(inOrganization),
  output: z.object({ waiting: z.int().describe('How many mails wait') }),
  async run(_input, { organization }, ports) {
    await ownServer(organization, ports);
    return { waiting: await hurryMails(ports.db, organization.id, ports.clock.now()) };
  },
});

/**
 * Queues mails for the mail server of an organization.
 *
 * @throws {AdministrationRefusal} `conflict` if it has none, or too many wait
 */
export async function enqueueMails(
  { id }: Organization,
  mails: readonly NewMail[],
  { db, clock }: WithDbAndClock,
): Promise<void> {
  if (!(await findMailServer(db, id))) {
    const why = 'no mail server is set up: set one up under Settings, or send the links yourself';
    throw conflict(why);
  }
  if (await insertMails(db, id, mails, { now: clock.now(), most: mostWaiting })) return;
  throw conflict(`more than ${mostWaiting} mails would wait: wait until some are sent`);
}

/** Queues a notice to each of these people, if the organization has a mail server and its queue has room for all of them. */
export async function enqueueNotices(
  { id }: Organization,
  recipients: readonly string[],
  content: Extract<MailContent, { kind: 'notice' }>,
  { db, clock, mailSetup }: Pick<AdministrationPorts, 'db' | 'clock' | 'mailSetup'>,
): Promise<void> {
  if (recipients.length === 0 || !(await findMailServer(db, id))) return;
  const mails = recipients.map((recipient) =>
    mailSetup.sealMail({ recipient, invitationId: undefined }, content),
  );
  await insertMails(db, id, mails, { now: clock.now(), most: mostWaitingForNotices });
}

export const mailOperations: readonly Operation[] = [
  mailServerRead,
  mailServerSet,
  mailServerRemove,
  mailTest,
  mailList,
  mailRetry,
];
