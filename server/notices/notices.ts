import {
  attentionKind,
  attentionKindNames,
  attentionKindsOf,
  findAttention,
  type FoundAttention,
} from '#admin/attention';
import { mostWaiting } from '#admin/mail';
import { insertAuditEvent } from '#db/audit';
import { findMailServer, insertMails } from '#db/mail';
import {
  announceThing,
  claimLook,
  hasNoticeWebhook,
  listDueLooks,
  listNoticeReaders,
  markNoticesSent,
  type NoticeReader,
  noteThings,
} from '#db/notices';
import { transaction, type Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import { RepeatedWork } from '#model/repeated-work';
import { redact } from 'latchkey-mcp/safe-text';
import type { MailSetup } from '#mail/mail-setup';

const checkEveryMs = 10_000;
/** How often each organization is looked at. */
const lookEverySeconds = 60;
/** How many organizations one check looks at. The others are due at the next one. */
const mostLooks = 50;
/** How many things of one kind are announced at a time. */
const mostOfAKind = 50;
/** How many things of an organization are remembered. */
const mostThings = 2000;
/** A thing that was gone for less than this time is not announced again. */
const forgetSeconds = 86_400;
/** Immediate notices to a reader are at least this far apart; the next one contains everything since the last one. */
const leastGapSeconds = 300;
/** Daily notices are sent from this time of the day on, in UTC. */
const dailyAtSeconds = 7 * 3600;
const daySeconds = 86_400;
/** How many things one mail lists. */
const mostInMail = 50;
const longestTarget = 200;

export interface NoticesPorts {
  readonly db: Db;
  readonly mailSetup: Pick<MailSetup, 'sealMail'>;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

/** An organization that is looked at. */
interface Place {
  readonly id: string;
  readonly name: string;
  readonly title: string;
}

/** A thing that needs attention, and when it was announced. */
interface Announced extends FoundAttention {
  readonly announcedAt: EpochSeconds;
}

/**
 * Announces things that need attention: to webhooks that ask for them, as events of the audit log, and by e-mail to members who chose
 * that. One of several processes announces each thing, once: it claims the look, and each announcement in the transaction that queues it.
 */
export class Notices extends RepeatedWork {
  readonly #ports: NoticesPorts;

  constructor(ports: NoticesPorts) {
    super(checkEveryMs, ports.failed);
    this.#ports = ports;
  }

  /** Looks at the organizations that are due. */
  protected override async work(): Promise<void> {
    const { db, clock } = this.#ports;
    const due = await listDueLooks(db, clock.now(), mostLooks);
    for (const place of due) {
      if (this.isClosed) return;
      const now = clock.now();
      const nextAt = now + lookEverySeconds;
      if (!(await claimLook(db, place.id, { now, nextAt }))) continue;
      // A fault in one organization must not keep the others from being looked at.
      await this.#lookAt(place, now).catch((error: unknown) => this.#ports.failed(error));
    }
  }

  async #lookAt(place: Place, now: EpochSeconds): Promise<void> {
    const { db } = this.#ports;
    const found = await findAttention(db, place, attentionKindNames, { now, limit: mostOfAKind });
    await transaction(db, async (tx) => {
      const announced = await this.#announce(tx, place, found, now);
      if (!(await findMailServer(tx, place.id))) return;
      for (const reader of await listNoticeReaders(tx, place.id)) {
        await this.#send(tx, place, { reader, announced, now });
      }
    });
  }

  /** Announces new things that lasted long enough. Returns all present things that were announced. */
  async #announce(
    tx: Db,
    { id, name: organization }: Place,
    found: readonly FoundAttention[],
    now: EpochSeconds,
  ): Promise<Announced[]> {
    const noted = await noteThings(tx, id, found, { now, forgetSeconds, most: mostThings });
    const isEvent = await hasNoticeWebhook(tx, id);
    const byName = new Map(noted.map((thing) => [`${thing.kind} ${thing.subject}`, thing]));
    const announced: Announced[] = [];
    for (const one of found) {
      const thing = byName.get(`${one.kind} ${one.subject}`);
      if (!thing) continue;
      if (thing.announcedAt !== undefined) {
        announced.push({ ...one, announcedAt: thing.announcedAt });
        continue;
      }
      const { settleSeconds = 0 } = attentionKind(one.kind);
      if (now - thing.firstSeenAt < settleSeconds) continue;
      if (!(await announceThing(tx, id, one, now))) continue;
      announced.push({ ...one, announcedAt: now });
      if (!isEvent) continue;
      await insertAuditEvent(tx, {
        at: now,
        actor: 'system',
        organization,
        action: `attention.${one.kind}`,
        target: targetOf(one),
        address: undefined,
        requestId: undefined,
        outcome: 'done',
      });
    }
    return announced;
  }

  /** Queues one mail with everything that a reader was not sent yet. */
  async #send(
    tx: Db,
    { id, name, title }: Place,
    {
      reader,
      announced,
      now,
    }: { reader: NoticeReader; announced: readonly Announced[]; now: EpochSeconds },
  ): Promise<void> {
    if (!isDue(reader, now)) return;
    const { kinds, role, sentAt = 0, email: recipient } = reader;
    const visible = new Set<string>(attentionKindsOf(role).filter((kind) => kinds.includes(kind)));
    const news = announced.filter(
      ({ kind, announcedAt }) =>
        visible.has(kind) && attentionKind(kind).isMailed !== false && announcedAt > sentAt,
    );
    if (news.length === 0) return;
    const home = `/dashboard/${name}`;
    const items = news
      .slice(0, mostInMail)
      .map(({ text, at, action }) => ({ text: withDay(text, at), path: home + action.path }));
    const others = news.length - items.length;
    if (others > 0) items.push({ text: `And ${others} more`, path: home });
    const mail = this.#ports.mailSetup.sealMail(
      { recipient, invitationId: undefined },
      {
        kind: 'notice',
        organization: title || name,
        items,
        settingsPath: `${home}/settings/notices`,
      },
    );
    if (!(await markNoticesSent(tx, id, reader, now))) return;
    // Too many mails wait: these notices are sent later, in one mail with those that follow.
    if (await insertMails(tx, id, [mail], { now, most: mostWaiting })) return;
    await markNoticesSent(tx, id, { ...reader, sentAt: now }, reader.sentAt);
  }
}

/** Whether it is time for the next mail to a reader. */
function isDue({ frequency, sentAt }: NoticeReader, now: EpochSeconds): boolean {
  if (sentAt === undefined) return true;
  if (frequency === 'now') return now - sentAt >= leastGapSeconds;
  return dayOf(now) > dayOf(sentAt);
}

/** The day of a time, as a number; it begins when daily notices are sent. */
function dayOf(at: EpochSeconds): number {
  return Math.floor((at - dailyAtSeconds) / daySeconds);
}

/** The target for the audit log: the sentence, as it follows "noticed that". */
function targetOf({ text }: FoundAttention): string {
  const words = /^(?:The|An?) /.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;
  return redact(words).slice(0, longestTarget);
}

/** A sentence with its day, because the reader of a mail does not know when it was written. */
function withDay(text: string, at: EpochSeconds | null): string {
  if (at === null) return text;
  const day = new Date(at * 1000).toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'long',
    timeZone: 'UTC',
  });
  return `${text} (${day})`;
}
