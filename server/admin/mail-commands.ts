import { knownBaseUrl, masterKeyFile, outboundHost } from '#config/option';
import { command, listCommand, type Command } from './command.ts';
import {
  mailList,
  mailRetry,
  mailServerRead,
  mailServerRemove,
  mailServerSet,
  mailTest,
} from './mail.ts';
import { organizationArgument, organizationIn, textArgument } from './positionals.ts';

const serverColumns = [
  'host',
  'port',
  'security',
  'user',
  'from',
  'lastSuccessAt',
  'lastFailure',
  {
    waiting: ({ mails }: { readonly mails: { readonly waiting: number } }) => mails.waiting,
    refused: ({ mails }: { readonly mails: { readonly refused: number } }) => mails.refused,
  },
] as const;

export const mailCommands: readonly Command[] = [
  command(mailServerSet, {
    words: 'mail set-server',
    positionals: [organizationArgument],
    options: [masterKeyFile, outboundHost],
    doc: 'set the SMTP server that sends invitations and notices of an organization',
    prints: serverColumns,
    hint: (_, given) => `latchkey-server mail test ${organizationIn(given)} EMAIL`,
  }),
  command(mailServerRead, {
    words: 'mail server',
    positionals: [organizationArgument],
    doc: 'show the mail server of an organization and its last result',
    prints: serverColumns,
  }),
  command(mailTest, {
    words: 'mail test',
    positionals: [organizationArgument, textArgument('EMAIL', 'to')],
    options: [masterKeyFile, outboundHost, knownBaseUrl],
    doc: 'send a test message through the mail server of an organization now, and show the result',
    failed: ({ isSent, words }) => (isSent ? undefined : `the mail server ${words}`),
    prints: [{ to: (_, { given }) => given['to'], answer: 'words' }],
  }),
  command(mailServerRemove, {
    words: 'mail remove-server',
    positionals: [organizationArgument],
    doc: 'remove the mail server of an organization, and the mails that wait for it',
    prints: ['host', { removed_at: (_, { now }) => now }],
  }),
  listCommand(mailList, {
    words: 'mail list',
    positionals: [organizationArgument],
    doc: 'list the mails that wait, and those of the last 30 days',
    prints: ['recipient', 'kind', 'status', 'answer', 'createdAt', 'endedAt', 'nextAttemptAt'],
    empty: 'no mails',
  }),
  command(mailRetry, {
    words: 'mail retry',
    positionals: [organizationArgument],
    doc: 'try now to send the mails that wait',
    prints: ['waiting'],
  }),
];
