import { setTimeout as delay } from 'node:timers/promises';
import { backOffs, pauseMs } from '#model/back-off';
import type { Clock, EpochSeconds } from '#model/clock';
import { RepeatedWork } from '#model/repeated-work';
import { insertAuditEvent, type AuditEvent } from '#db/audit';
import type { Db } from '#db/transaction';
import {
  deleteEndedRegistration,
  deleteUnusedUpstreamAccesses,
  findUpstreamAccess,
  listEndedRegistrations,
  postponeEndedRegistration,
  type EndedRegistration,
  type UpstreamAccess,
} from '#db/upstream-access';
import {
  deleteEndedConnection,
  listEndedConnections,
  postponeEndedConnection,
  type EndedConnection,
} from '#db/upstream-connections';
import { registrationPurpose, tokensPurpose } from './access.ts';
import { OutboundError } from '#outbound/checked-addresses';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import type { Sealing } from '#secrets/master-key';
import type { AuthorizationClient } from './authorization-client.ts';
import { readTokens, type EndedTokens } from './tokens.ts';

const intervalMs = 2000;
const batch = 20;
/** The attempts take about nine hours, because the pauses double from one minute. */
const maxAttempts = 10;
/** How long a person may have to wait for a page. */
const waitMs = 5000;

export interface CredentialCleanupOptions {
  readonly db: Db;
  /** Removes and returns the tokens of servers (not of people) that must be revoked. */
  readonly takeServerTokens: () => Promise<readonly EndedTokens[]>;
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  /** The fetch for requests to the authorization server of an access. */
  readonly fetchOf: (access: UpstreamAccess) => GuardedFetch;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/** An ended connection or registration, which must be revoked or removed at its authorization server. */
interface PendingCleanup {
  /** How often the cleanup failed before. */
  readonly attempts: number;
  /** Sets the next attempt. Resolves with `true` only for the one process that may make the current attempt. */
  readonly postpone: (next: EpochSeconds) => Promise<boolean>;
  /** `retry`: try again later, up to the maximum number of attempts. */
  readonly undo: () => Promise<'done' | 'retry'>;
  readonly remove: () => Promise<void>;
}

/**
 * Revokes the tokens of connections that ended, in any way, and removes client registrations that are no longer used.
 * For this server, a connection is invalid from the moment it ended; this tells the authorization servers and then deletes the
 * rows. Failed attempts are repeated with growing pauses. Tokens of servers are revoked only once, because they are not stored.
 *
 * RFC 7009, RFC 7592 §2.3
 */
export class CredentialCleanup extends RepeatedWork {
  readonly #options: CredentialCleanupOptions;
  #rounds = 0;

  constructor(options: CredentialCleanupOptions) {
    super(intervalMs, options.onError);
    this.#options = options;
  }

  /** Cleans up everything that has ended so far. Resolves after five seconds at the latest and continues in the background; never rejects. */
  async runNow(): Promise<void> {
    const waiting = new AbortController();
    const timeout = delay(waitMs, undefined, { signal: waiting.signal }).catch(() => undefined);
    const done = (async () => {
      // A round in progress may have started before the caller ended a connection.
      await this.running;
      await this.run();
    })();
    await Promise.race([done, timeout]);
    waiting.abort();
  }

  protected override async work(): Promise<void> {
    const { db, clock, takeServerTokens, onError } = this.#options;
    const due = await listEndedConnections(db, clock.now(), batch);
    const serverTokens = await takeServerTokens();
    await Promise.all([
      ...due.map((one) => this.#attempt(this.#endedConnection(one))),
      ...serverTokens.map((one) => this.#revoke(one, true).catch(onError)),
    ]);
    // After the connections: their tokens can be revoked only while the client is registered.
    const unused = await listEndedRegistrations(db, clock.now(), batch);
    await Promise.all(unused.map((one) => this.#attempt(this.#endedRegistration(one))));
    // Accesses that were never used never have a due cleanup, so every thirtieth round looks for them.
    this.#rounds += 1;
    if (due.length > 0 || this.#rounds % 30 === 1) await deleteUnusedUpstreamAccesses(db);
  }

  async #attempt({ attempts, postpone, undo, remove }: PendingCleanup): Promise<void> {
    const pause = pauseMs(backOffs.credentialCleanup, attempts + 1) / 1000;
    if (!(await postpone(this.#options.clock.now() + pause))) return;
    if ((await undo()) === 'retry' && attempts + 1 < maxAttempts) return;
    await remove();
  }

  #endedConnection(connection: EndedConnection): PendingCleanup {
    const { db, sealing, onError } = this.#options;
    const { organization, server, userId, attempts } = connection;
    return {
      attempts,
      postpone: (next) => postponeEndedConnection(db, connection, next),
      undo: async () => {
        const access = await findUpstreamAccess(db, connection.accessId);
        try {
          const opened = sealing.open(tokensPurpose(connection), connection.sealedTokens);
          const ended = { tokens: readTokens(opened), organization, server, userId };
          if (access) await this.#revoke({ access, ...ended }, attempts === 0);
          return 'done';
        } catch (error) {
          if (attempts + 1 >= maxAttempts) onError(error);
          return 'retry';
        }
      },
      remove: () => deleteEndedConnection(db, connection.id),
    };
  }

  /** The removal of a client. A refusal is not repeated: the authorization server does not support the removal, or has already done it. */
  #endedRegistration({
    access,
    registration,
    attempts,
    ...place
  }: EndedRegistration): PendingCleanup {
    const { db, fetchOf, sealing } = this.#options;
    return {
      attempts,
      postpone: (next) => postponeEndedRegistration(db, { accessId: access.id, attempts }, next),
      undo: async () => {
        const token = sealing.open(registrationPurpose(access), registration.sealedToken);
        const outcome = await deleteRegistration(registration.url, token, fetchOf(access));
        if (outcome === 'done' || attempts === 0) {
          await this.#audit('upstream-client.deregister', place, outcome);
        }
        return outcome === 'unreachable' ? 'retry' : 'done';
      },
      remove: () => deleteEndedRegistration(db, access.id),
    };
  }

  /**
   * Revokes tokens and records in the audit log that they were revoked or, the first time, that they could not be. An
   * authorization server without a revocation endpoint is not asked. RFC 8414 §2
   *
   * @throws {UpstreamAccessError}
   */
  async #revoke({ access, tokens, ...place }: EndedTokens, isFirst: boolean): Promise<void> {
    if (access.metadata.revocation_endpoint === undefined) return;
    try {
      await this.#options.clientOf(access).revoke(tokens);
    } catch (error) {
      if (isFirst) await this.#audit('upstream-token.revoke', place, 'refused');
      throw error;
    }
    await this.#audit('upstream-token.revoke', place, 'done');
  }

  #audit(
    action: AuditEvent['action'],
    { organization, server, userId }: Pick<EndedTokens, 'organization' | 'server' | 'userId'>,
    outcome: 'done' | 'refused' | 'unreachable',
  ): Promise<void> {
    const path = `server:${organization === undefined ? '' : `${organization}/`}${server}`;
    return insertAuditEvent(this.#options.db, {
      at: this.#options.clock.now(),
      actor: 'system',
      organization,
      action,
      target: userId === undefined ? path : `connection:${userId} ${path}`,
      address: undefined,
      requestId: undefined,
      outcome: outcome === 'done' ? 'done' : 'refused',
    });
  }
}

async function deleteRegistration(
  url: string,
  token: string,
  fetch: GuardedFetch,
): Promise<'done' | 'refused' | 'unreachable'> {
  try {
    const headers = { authorization: `Bearer ${token}` };
    const { ok, status } = await fetch(url, { method: 'DELETE', headers });
    if (ok) return 'done';
    return status >= 500 || status === 429 ? 'unreachable' : 'refused';
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return error.code === 'forbidden' ? 'refused' : 'unreachable';
  }
}
