import { z } from 'zod';

import type { EpochSeconds } from '#model/clock';
import { roles } from '#model/roles';

/** The content of a mail; sealed while the mail waits. */
export const mailContent = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['invitation', 'reminder']),
    organization: z.string(),
    role: z.enum(roles),
    /** The address of the person who invites; absent for the operator. */
    by: z.string().optional(),
    /** The path of the link. */
    path: z.string(),
    expiresAt: z.int(),
  }),
  z.object({
    kind: z.literal('test'),
    organization: z.string(),
  }),
  z.object({
    kind: z.literal('notice'),
    organization: z.string(),
    /** The matters that need attention: a sentence for each, and the path of the page to act on. */
    items: z.array(z.object({ text: z.string(), path: z.string() })),
    /** The path of the page where the recipient chooses notices; absent for a notice that is about the recipient. */
    settingsPath: z.string().optional(),
  }),
]);

export type MailContent = z.output<typeof mailContent>;

/** A mail as text. */
export interface MailText {
  readonly subject: string;
  readonly text: string;
}

/** Writes the words of a mail. `base` is the public URL of this server. */
export function mailText(content: MailContent, base: string): MailText {
  const organization = oneLine(content.organization);
  switch (content.kind) {
    case 'invitation':
    case 'reminder':
      return invitationText(content, organization, base);
    case 'test':
      return {
        subject: `Test message from Latchkey for ${organization}`,
        text: lines([
          `This is a test. Latchkey sends mail for ${organization} through this server.`,
          '',
          `${base}/`,
        ]),
      };
    case 'notice':
      return noticeText(content, organization, base);
  }
}

function invitationText(
  { kind, role, by, path, expiresAt }: Extract<MailContent, { path: string }>,
  organization: string,
  base: string,
): MailText {
  const who = by === undefined ? `An administrator of ${organization}` : oneLine(by);
  const isReminder = kind === 'reminder';
  const subject = `${isReminder ? 'Reminder: invitation' : 'Invitation'} to ${organization}`;
  const article = /^[aeiou]/.test(role) ? 'an' : 'a';
  return {
    subject,
    text: lines([
      `${who} invites you to ${organization} on Latchkey.${isReminder ? ' You have not joined yet.' : ''}`,
      `Latchkey connects your AI assistants to the tools of ${organization}.`,
      '',
      'Accept the invitation:',
      base + path,
      '',
      `The link works once, until ${timeWords(expiresAt)}. You join as ${article} ${role}.`,
      'If you did not expect this message, ignore it. Do not pass the link on.',
    ]),
  };
}

function noticeText(
  { items, settingsPath }: Extract<MailContent, { kind: 'notice' }>,
  organization: string,
  base: string,
): MailText {
  const [first] = items;
  const only = items.length === 1 && first ? oneLine(first.text) : undefined;
  return {
    subject: only
      ? `${organization}: ${only}`
      : `${organization}: ${items.length} things need attention`,
    text: lines([
      ...items.flatMap(({ text, path }) => [oneLine(text), base + path, '']),
      ...(settingsPath === undefined
        ? []
        : [`Choose which notices you get: ${base}${settingsPath}`]),
    ]),
  };
}

function lines(all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}

/** Text from outside, without anything that could begin a new line or header. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}

function timeWords(at: EpochSeconds): string {
  const date = new Date(at * 1000);
  const day = date.toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  });
  return `${day}, ${date.toISOString().slice(11, 16)} UTC`;
}

/** Who sends a mail, who gets it, and what its headers say. */
interface MailEnvelope {
  /** Unique; every attempt has the same, so that a receiver recognizes a repetition. */
  readonly id: string;
  readonly from: string;
  /** The name shown beside the sender's address. */
  readonly fromName: string;
  readonly to: string;
  readonly at: EpochSeconds;
}

/**
 * A message in the form in which it is sent: plain text in UTF-8. Its headers are encoded, so that no name or subject can add one.
 *
 * RFC 5322, RFC 2047, RFC 3834 (Auto-Submitted)
 */
export async function composeMail(
  { id, from, fromName, to, at }: MailEnvelope,
  { subject, text }: MailText,
): Promise<Buffer> {
  const { default: MailComposer } = await import('nodemailer/lib/mail-composer');
  const message = new MailComposer({
    messageId: `<${id}@${from.split('@').at(-1) ?? ''}>`,
    date: new Date(at * 1000),
    from: { name: oneLine(fromName), address: from },
    to: { name: '', address: to },
    subject: oneLine(subject),
    text,
    textEncoding: 'quoted-printable',
    headers: { 'Auto-Submitted': 'auto-generated' },
    xMailer: false,
    disableFileAccess: true,
    disableUrlAccess: true,
    newline: 'windows',
  }).compile();
  return message.build();
}
