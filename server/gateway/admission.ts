import type { EpochSeconds } from '#clock/clock';
import type { Scope } from '#credentials/scope';
import type { ServerRecord } from '#organizations/server-record';
import type { MeteredCall } from './metered-call.ts';
import type { Standing } from './standing.ts';

/** What lets a request in: who is asking, for which server, and what they may do there. */
export interface Admission {
  /** Whom upstream sessions belong to: the same for every token of one client. */
  readonly principal: string;
  readonly credential: MeteredCall['credential'];
  /** The person who asks, or for whom an application does; absent where it acts for itself. */
  readonly userId?: string;
  /** The person's grant that the client acts by, where there is one. */
  readonly grantId?: string;
  readonly scopes: readonly Scope[];
  readonly server: ServerRecord;
  /** Names the key or the one token, not its value. */
  readonly reference: string;
  /** What it would be let in for now; `undefined` when not at all. */
  readonly scopesNow: () => Promise<readonly Scope[] | undefined>;
  /** What the same caller comes back by, with another token too. */
  readonly standing: Standing;
}

/** The server and the credential's standing, asked anew for every request. */
export interface AdmittedKey {
  readonly server: ServerRecord;
  readonly keyId: string;
  readonly scopes: readonly Scope[];
}

export interface AdmittedClient {
  readonly server: ServerRecord;
  /** The most that the client, and the person it acts for, may have now. */
  readonly scopes: readonly Scope[];
}

/**
 * Says whether a credential opens a server at this moment. `undefined` covers unknown, revoked, expired,
 * another server's, a grant that was withdrawn, a person who left, and a server or organization that is
 * not there or disabled: nobody learns which.
 */
export interface AdmissionStore {
  byKey(at: {
    organization: string;
    server: string;
    keyHash: string;
    now: EpochSeconds;
  }): Promise<AdmittedKey | undefined>;

  byClient(at: {
    organization: string;
    server: string;
    clientId: string;
    /** Absent: whether there is a token that would be let in. */
    tokenId?: string | undefined;
    /** Of a token that a person granted: the grant, and the person. */
    grant?: { id: string; userId: string } | undefined;
  }): Promise<AdmittedClient | undefined>;

  /** A member of the server's organization, for what their role covers. */
  byPerson(at: {
    organization: string;
    server: string;
    userId: string;
  }): Promise<AdmittedClient | undefined>;

  /** Another text than before, once anything at all was written. Costs next to nothing. */
  written(): string;
}
