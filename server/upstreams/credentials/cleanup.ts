import { setTimeout as delay } from 'node:timers/promises';
import type { Clock, EpochSeconds } from '#clock/clock';
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
import type { Sealing } from '#oauth/master-key';
import type { AuthorizationClient } from './authorization-client.ts';
import { readTokens, type EndedTokens } from './tokens.ts';

const intervalMs = 2000;
const batch = 20;
/** About nine hours, as the pauses double from a minute. */
const maxAttempts = 10;
/** As long as a person waits for a page. */
const waitMs = 5000;

export interface CredentialCleanupOptions {
  readonly db: Db;
  /** Removes and returns servers' own tokens that are to be revoked. */
  readonly takeServerTokens: () => Promise<readonly EndedTokens[]>;
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  /** The fetch for requests to the authorization server of an access. */
  readonly fetchOf: (access: UpstreamAccess) => GuardedFetch;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/** Something to undo at an authorization server: one row of one of the two tables of what ended. */
interface Ended {
  /** How often it was tried before. */
  readonly attempts: number;
  /** `true` for the one process that may make this attempt. */
  readonly postpone: (next: EpochSeconds) => Promise<boolean>;
  /** `retry` has it tried again later, until there were too many attempts. */
  readonly undo: () => Promise<'done' | 'retry'>;
  readonly remove: () => Promise<void>;
}

/**
 * Revokes the tokens of connections that ended, in any way, and removes client registrations that are no longer used.
 * Here a connection is invalid from the moment that it ended; this tells the authorization servers, and then forgets the
 * rows. Failed attempts are repeated with growing pauses. Tokens of servers themselves are revoked once, as nothing of
 * them is stored.
 *
 * RFC 7009, RFC 7592 §2.3
 */
export class CredentialCleanup {
  readonly #options: CredentialCleanupOptions;
  readonly #timer: NodeJS.Timeout;
  #rounds = 0;
  #running: Promise<void> | undefined;

  constructor(options: CredentialCleanupOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.run(), intervalMs).unref();
  }

  /** Runs one round; never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#round()
      .catch((error: unknown) => this.#options.onError(error))
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  /** Cleans up what has ended by now. Returns after five seconds at the latest, and continues in the background; never rejects. */
  async runNow(): Promise<void> {
    const waiting = new AbortController();
    const timeout = delay(waitMs, undefined, { signal: waiting.signal }).catch(() => undefined);
    const done = (async () => {
      // A round that is running may have begun before what the caller ended.
      await this.#running;
      await this.run();
    })();
    await Promise.race([done, timeout]);
    waiting.abort();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #round(): Promise<void> {
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
    // An access that was never used leaves nothing that would be due.
    this.#rounds += 1;
    if (due.length > 0 || this.#rounds % 30 === 1) await deleteUnusedUpstreamAccesses(db);
  }

  async #attempt({ attempts, postpone, undo, remove }: Ended): Promise<void> {
    const next = this.#options.clock.now() + 60 * 2 ** attempts;
    if (!(await postpone(next))) return;
    if ((await undo()) === 'retry' && attempts + 1 < maxAttempts) return;
    await remove();
  }

  #endedConnection(connection: EndedConnection): Ended {
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

  /** An authorization server that does not let clients be removed, or has removed it, is not asked again. */
  #endedRegistration({ access, registration, attempts, ...place }: EndedRegistration): Ended {
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
