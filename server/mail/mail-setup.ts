import { randomUUID } from 'node:crypto';

import type { MailServerSettings, NewMail } from '#db/mail';
import type { Clock } from '#model/clock';
import {
  checkedAddresses,
  hostFault,
  OutboundError,
  type OutboundGuard,
} from '#outbound/checked-addresses';
import type { Sealing } from '#secrets/master-key';
import { composeMail, type MailContent, mailText } from './compose-mail.ts';
import {
  mailSecurityProblem,
  MailServerError,
  mailServerUrl,
  openMailSession,
} from './mail-session.ts';

/** The purpose that the password of an organization's mail server is encrypted for. */
function mailPasswordPurpose(organizationId: string): string {
  return `password of the mail server of ${organizationId}`;
}

/** The purpose that the content of a mail is encrypted for, because it may have a link that must not be read from the database. */
export function mailPurpose(mailId: string): string {
  return `mail ${mailId}`;
}

/** The mail server of an organization as it is used: with its password in plain text. */
export type UsableMailServer = MailServerSettings & { readonly password: string | undefined };

/** The mail server with its password. */
export function usableServer<Server extends MailServerSettings>(
  server: Server,
  organizationId: string,
  sealing: Pick<Sealing, 'open'>,
): Server & UsableMailServer {
  const { sealedPassword } = server;
  const purpose = mailPasswordPurpose(organizationId);
  const password = sealedPassword === undefined ? undefined : sealing.open(purpose, sealedPassword);
  return { ...server, password };
}

interface MailSetupParts {
  readonly sealing: Sealing;
  readonly guard: OutboundGuard;
  readonly clock: Clock;
  /** The public URL of this server; unknown to most commands. */
  readonly base: string | undefined;
}

export function mailSetup({ sealing, guard, clock, base = '' }: MailSetupParts) {
  return {
    /** What is wrong with the host of a mail server, as a predicate; `undefined` if it may be used. */
    async problemOf(
      server: Pick<MailServerSettings, 'host' | 'port' | 'security'>,
    ): Promise<{ readonly field: 'host' | 'security'; readonly problem: string } | undefined> {
      const security = mailSecurityProblem(server, guard.allowedHosts);
      if (security !== undefined) return { field: 'security', problem: security };
      try {
        await checkedAddresses(mailServerUrl(server), guard);
      } catch (error) {
        if (!(error instanceof OutboundError)) throw error;
        return { field: 'host', problem: hostFault(error) };
      }
      return undefined;
    },

    sealPassword: (organizationId: string, password: string) =>
      sealing.seal(mailPasswordPurpose(organizationId), password),

    /** A mail that can be stored. Its content is encrypted. */
    sealMail(
      mail: Pick<NewMail, 'recipient' | 'invitationId'>,
      content: Exclude<MailContent, { kind: 'test' }>,
    ): NewMail {
      const id = `mail_${randomUUID().replaceAll('-', '')}`;
      const sealedContent = sealing.seal(mailPurpose(id), JSON.stringify(content));
      return { id, kind: content.kind, ...mail, sealedContent };
    },

    /** Sends a test message now, and returns what the server did, or why sending failed, as a predicate. */
    async test(
      server: MailServerSettings,
      {
        organizationId,
        organization,
        address,
      }: {
        readonly organizationId: string;
        readonly organization: string;
        readonly address: string;
      },
    ): Promise<{ readonly isSent: boolean; readonly words: string }> {
      const { from } = server;
      try {
        const usable = usableServer(server, organizationId, sealing);
        const name = greetingName(base, from);
        const session = await openMailSession(usable, { guard, name });
        try {
          const id = `test_${randomUUID()}`;
          const envelope = { id, from, fromName: organization, to: address, at: clock.now() };
          const text = mailText({ kind: 'test', organization }, base);
          const message = await composeMail(envelope, text);
          const { outcome, words } = await session.send({ from, to: address, message });
          return { isSent: outcome === 'sent', words };
        } finally {
          session.close();
        }
      } catch (error) {
        if (!(error instanceof MailServerError)) throw error;
        return { isSent: false, words: error.message };
      }
    },
  };
}

/** The functions that the operations on mail need in addition to the database. */
export type MailSetup = ReturnType<typeof mailSetup>;

/** The name that this server greets mail servers with: its host, or the domain of the sender. RFC 5321 §4.1.1.1 */
export function greetingName(base: string, from: string): string {
  const host = base === '' ? (from.split('@').at(-1) ?? '') : new URL(base).hostname;
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) ? `[${host}]` : host.replace(/^\[(.*)\]$/, '[IPv6:$1]');
}
