import {
  claimMail,
  type ClaimedMail,
  endMail,
  findMailServer,
  listWaitingOrganizations,
  type MailServer,
  noteMailServer,
  releaseMail,
} from '#db/mail';
import { DueQueues } from '#db/due-queues';
import type { Db } from '#db/transaction';
import { backOffs, pauseMs } from '#model/back-off';
import type { Clock, EpochSeconds } from '#model/clock';
import type { OutboundGuard } from '#outbound/checked-addresses';
import type { Sealing } from '#secrets/master-key';
import { composeMail, type MailContent, mailContent, mailText } from './compose-mail.ts';
import { mailMs, MailServerError, type MailSession, openMailSession } from './mail-session.ts';
import { greetingName, mailPurpose, type UsableMailServer, usableServer } from './mail-setup.ts';

const lookEveryMs = 1000;
/** How many organizations are served at once. After this many mails or seconds, the next organization has its turn. */
const mostAtOnce = 4;
const mostATurn = 50;
const turnSeconds = 60;
/** Longer than it can take to connect and to send one mail. After this time, another process may claim the mail. */
const claimSeconds = (5 * mailMs) / 1000;
const giveUpSeconds = 3 * 86_400;
const pauseAfterFaultSeconds = 60;

interface MailDeliveriesPorts {
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly guard: OutboundGuard;
  readonly clock: Clock;
  readonly random: () => number;
  /** The public URL of this server. */
  readonly base: string;
  /** A change token of the database. */
  readonly changeToken: () => string;
  readonly undelivered: (organizationId: string, words: string) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * Sends the mails that wait in the database: those of one organization one after the other over one connection, and a few organizations
 * at once. A mail is claimed before it is sent and marked afterwards, so that it is sent twice only if a process or connection ends
 * between the server's acceptance and the mark; it then has the same Message-ID.
 */
export class MailDeliveries {
  readonly #ports: MailDeliveriesPorts;
  readonly #queues: DueQueues;

  constructor(ports: MailDeliveriesPorts) {
    this.#ports = ports;
    this.#queues = new DueQueues(
      {
        ...ports,
        listWaiting: async () =>
          (await listWaitingOrganizations(ports.db)).map(({ organizationId: id, dueAt }) => {
            return { id, dueAt };
          }),
        serve: (organizationId, signal) => this.#serve(organizationId, signal),
      },
      { lookEveryMs, mostAtOnce, pauseAfterFaultSeconds },
    );
  }

  /** Looks once and starts what is due; never rejects. */
  look(): Promise<void> {
    return this.#queues.run();
  }

  /** Ends the connections. Mails in progress are sent again by the next process. */
  close(): Promise<void> {
    return this.#queues.close();
  }

  /** Sends a number of mails of an organization over one connection. */
  async #serve(organizationId: string, signal: AbortSignal): Promise<void> {
    const { db, sealing, guard, base, clock, undelivered } = this.#ports;
    const server = await findMailServer(db, organizationId);
    if (!server || server.nextAttemptAt > clock.now()) return;
    let claimed = await this.#claim(server);
    if (!claimed) return;
    let session: MailSession | undefined;
    let ended = 0;
    const turnEnd = clock.now() + turnSeconds;
    try {
      const name = greetingName(base, server.from);
      const usable = openedServer(server, organizationId, sealing);
      session = await openMailSession(usable, { guard, name, signal });
      while (claimed && !signal.aborted) {
        await this.#send(claimed, session, server);
        ended += 1;
        const isOver = ended >= mostATurn || clock.now() >= turnEnd;
        claimed = isOver ? undefined : await this.#claim(server);
      }
      await noteMailServer(db, server, { worked: clock.now() });
    } catch (error) {
      if (!(error instanceof MailServerError)) throw error;
      if (signal.aborted) return;
      const now = clock.now();
      const why = error.message;
      undelivered(organizationId, why);
      // The server works, because it dealt with earlier mails of this turn.
      if (ended > 0) await noteMailServer(db, server, { worked: now });
      else await noteMailServer(db, server, { failed: now, why, ...this.#after(server) });
      if (!claimed || !session) return;
      const mail = claimed;
      claimed = undefined;
      await this.#putOff(mail, why);
    } finally {
      session?.close();
      if (claimed) await releaseMail(db, claimed, { nextAttemptAt: clock.now(), counts: false });
    }
  }

  #claim(server: MailServer): Promise<ClaimedMail | undefined> {
    const now = this.#ports.clock.now();
    return claimMail(this.#ports.db, server, { now, until: now + claimSeconds });
  }

  /** Sends one mail, and records the result. @throws {MailServerError} */
  async #send(mail: ClaimedMail, session: MailSession, server: MailServer): Promise<void> {
    const { db, sealing, base, clock } = this.#ports;
    const content = openedContent(mail, sealing);
    if (!content) {
      // This mail can never be sent, and must not delay the mails after it.
      await endMail(db, mail, 'refused', unreadable, clock.now());
      return;
    }
    const { from, organization: fromName } = server;
    const envelope = { id: mail.id, from, fromName, to: mail.recipient, at: mail.createdAt };
    const message = await composeMail(envelope, mailText(content, base));
    const { outcome, words } = await session.send({ from, to: mail.recipient, message });
    if (outcome === 'later') await this.#putOff(mail, words);
    else await endMail(db, mail, outcome, words, clock.now());
  }

  /** Schedules another attempt for a mail, or gives up if it is too old. */
  async #putOff(mail: ClaimedMail, answer: string): Promise<void> {
    const { db, clock } = this.#ports;
    const now = clock.now();
    if (now - mail.createdAt >= giveUpSeconds) await endMail(db, mail, 'refused', answer, now);
    else await releaseMail(db, mail, { answer, counts: true, ...this.#after(mail) });
  }

  /** When to try again after one more failure. */
  #after({ attempts }: { readonly attempts: number }): { readonly nextAttemptAt: EpochSeconds } {
    const { clock, random } = this.#ports;
    const pause = pauseMs(backOffs.mail, attempts + 1, random);
    return { nextAttemptAt: clock.now() + Math.ceil(pause / 1000) };
  }
}

/** @throws {MailServerError} if the password was encrypted under another key */
function openedServer(
  server: MailServer,
  organizationId: string,
  sealing: Pick<Sealing, 'open'>,
): MailServer & UsableMailServer {
  try {
    return usableServer(server, organizationId, sealing);
  } catch (cause) {
    throw new MailServerError(
      'has a stored password that cannot be decrypted with this master key: enter it again',
      { cause },
    );
  }
}

/** Pages show this after "The server". */
const unreadable = 'was not asked, because the mail cannot be decrypted with this master key';

/** The content of a mail; `undefined` if it was encrypted under another key, or written by an incompatible version. */
function openedContent(
  { id, sealedContent }: Pick<ClaimedMail, 'id' | 'sealedContent'>,
  sealing: Pick<Sealing, 'open'>,
): MailContent | undefined {
  try {
    return mailContent.safeParse(JSON.parse(sealing.open(mailPurpose(id), sealedContent))).data;
  } catch {
    return undefined;
  }
}
