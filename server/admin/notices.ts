import { z } from 'zod';

import { findMailServer } from '#db/mail';
import {
  findNoticeChoice,
  type NoticeChoice,
  noticeFrequencies,
  replaceNoticeChoice,
} from '#db/notices';
import type { Organization } from '#db/organizations';
import { findMember } from '#db/people';
import {
  attentionKind,
  attentionKindNames,
  type AttentionKindName,
  attentionKindsOf,
} from './attention.ts';
import { command, type Command } from './command.ts';
import { fields, surfaces } from './fields.ts';
import {
  mayDo,
  type Actor,
  organizationOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { organizationArgument, personArgument } from './positionals.ts';
import { conflict, forbidden, invalidField, notFound } from './refusal.ts';

const path = '/organizations/{organization}/notices';
const frequencies = ['never', ...noticeFrequencies] as const;

const ofReader = {
  organization: fields.organization,
  userId: z
    .string()
    .max(100)
    .optional()
    .describe('For the operator, who gets none; everyone else chooses for themselves'),
};

const noticesViewSchema = z
  .object({
    userId: z.string().describe('Whose they are'),
    frequency: z.enum(frequencies),
    kinds: z
      .array(z.enum(attentionKindNames))
      .describe('What they are about; those that the role does not see are not sent'),
    offered: z.array(z.enum(attentionKindNames)).describe('What the role sees'),
    email: z.string().describe('Where they are sent'),
    hasMailServer: z.boolean().describe('Without a mail server, none are sent'),
  })
  .meta({ id: 'Notices' });

export type NoticesView = z.output<typeof noticesViewSchema>;

/** The kinds that are sent by e-mail, which people choose from. */
const mailedKinds = attentionKindNames.filter((kind) => attentionKind(kind).isMailed !== false);

/** The member whose notices they are. People choose only for themselves, so that no one can cause mail to others. @throws {AdministrationRefusal} */
async function readerOf(
  userId: string | undefined,
  actor: Actor,
  { id }: Organization,
  { db }: WithDb,
) {
  const own = actor.type === 'person' ? actor.userId : undefined;
  if (userId === undefined && own === undefined) throw invalidField('userId', 'is missing');
  if (own !== undefined && userId !== undefined && userId !== own) {
    throw forbidden('people choose their own notices');
  }
  const member = await findMember(db, id, own ?? userId ?? '');
  if (!member) throw notFound('person');
  if (!mayDo(member.role, 'notice.manage')) {
    throw conflict(`${member.email} is neither an owner nor an admin, and gets no notices`);
  }
  return { id: member.userId, email: member.email, role: member.role };
}

async function toView(
  { id: userId, email, role }: Awaited<ReturnType<typeof readerOf>>,
  choice: NoticeChoice | undefined,
  { id }: Organization,
  { db }: WithDb,
): Promise<NoticesView> {
  const seen = attentionKindsOf(role);
  const chosen: readonly string[] = choice?.kinds ?? [];
  return {
    userId,
    frequency: choice?.frequency ?? 'never',
    kinds: attentionKindNames.filter((kind) => chosen.includes(kind)),
    offered: mailedKinds.filter((kind) => seen.includes(kind)),
    email,
    hasMailServer: (await findMailServer(db, id)) !== undefined,
  };
}

export const noticesRead = organizationOperation({
  name: 'notice.read',
  doc: 'Read which notices of what needs attention you get by e-mail',
  route: { method: 'GET', path },
  permission: 'notice.manage',
  input: z.strictObject(ofReader),
  output: noticesViewSchema,
  async run({ userId }, { organization, actor }, ports) {
    const reader = await readerOf(userId, actor, organization, ports);
    const choice = await findNoticeChoice(ports.db, organization.id, reader.id);
    return toView(reader, choice, organization, ports);
  },
});

export const noticesSet = organizationOperation({
  name: 'notice.set',
  doc: 'Choose which notices of what needs attention you get by e-mail, and how often',
  route: { method: 'PATCH', path },
  permission: 'notice.manage',
  input: z.strictObject({
    ...ofReader,
    frequency: z.enum(frequencies).register(surfaces, {
      option: { value: 'WHEN', doc: `when they are sent: ${frequencies.join(', ')}` },
      control: {
        kind: 'radio',
        label: 'When',
        subject: 'The time',
        chosen: 'never',
        choices: [
          { value: 'never', text: 'Never' },
          {
            value: 'now',
            text: 'Immediately',
            help: 'Everything within five minutes goes into one message.',
          },
          {
            value: 'daily',
            text: 'Once a day',
            help: 'After 07:00 UTC, with everything since the day before. No message if there is nothing to report.',
          },
        ],
      },
    }),
    kinds: z
      .array(z.enum(attentionKindNames))
      .max(attentionKindNames.length)
      .optional()
      .describe('What they are about; unchanged if omitted, and everything the first time')
      .register(surfaces, {
        option: {
          name: 'kind',
          value: 'KIND',
          repeated: true,
          doc: `what they are about: ${mailedKinds.join(', ')} (default: unchanged, and all the first time)`,
        },
        control: {
          kind: 'checkboxes',
          name: 'kind',
          label: 'About',
          subject: 'The list',
          optional: 'unmarked',
          choices: mailedKinds.map((kind) => ({ value: kind, text: attentionKind(kind).label })),
        },
      }),
  }),
  output: noticesViewSchema,
  target(given, output) {
    const userId = output?.userId ?? given.userId;
    return userId && `user:${userId}`;
  },
  async run({ userId, frequency, kinds }, { organization, actor }, ports) {
    const { db, clock } = ports;
    const reader = await readerOf(userId, actor, organization, ports);
    const before = await findNoticeChoice(db, organization.id, reader.id);
    const wanted: readonly string[] = kinds ?? before?.kinds ?? mailedKinds;
    if (frequency !== 'never' && wanted.length === 0) {
      throw invalidField('kinds', 'is empty: choose at least one, or never');
    }
    const chosen = attentionKindNames.filter((kind): kind is AttentionKindName =>
      wanted.includes(kind),
    );
    const choice = frequency === 'never' ? undefined : { frequency, kinds: chosen };
    await replaceNoticeChoice(db, organization.id, reader.id, choice, clock.now());
    const after = await findNoticeChoice(db, organization.id, reader.id);
    return toView(reader, after, organization, ports);
  },
});

export const noticeOperations: readonly Operation[] = [noticesRead, noticesSet];

export const noticeCommands: readonly Command[] = [
  command(noticesRead, {
    words: 'notice show',
    positionals: [organizationArgument, personArgument],
    doc: 'show which notices an administrator gets by e-mail',
    prints: ['email', 'frequency', 'kinds'],
  }),
  command(noticesSet, {
    words: 'notice set',
    positionals: [organizationArgument, personArgument],
    doc: 'choose which notices an administrator gets by e-mail, and how often',
    prints: ['email', 'frequency', 'kinds'],
  }),
];
