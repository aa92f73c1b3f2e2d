import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { AuthorizationClient } from './authorization-client.ts';
import type { UpstreamAccess } from './upstream-access.ts';
import type { UpstreamTokens } from './upstream-tokens.ts';

/** Tokens of an upstream that are nobody's any more, and whose they were. */
export interface EndedTokens {
  readonly access: UpstreamAccess;
  readonly tokens: UpstreamTokens;
  readonly organization: string | undefined;
  /** The server's name; its id, once it is gone. */
  readonly server: string;
  /** Absent for our own, by client credentials. */
  readonly userId?: string | undefined;
}

export interface TellEndPorts {
  readonly clientOf: (access: UpstreamAccess) => AuthorizationClient;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}

/**
 * Tells an authorization server that tokens are not used any more, and writes down that it was told or, the first time,
 * that it could not be. One that names no revocation endpoint has nothing to be told.
 *
 * RFC 7009, RFC 8414 §2
 *
 * @throws {UpstreamAccessError}
 */
export async function tellEnd(
  ended: EndedTokens,
  isFirst: boolean,
  { clientOf, audit, clock }: TellEndPorts,
): Promise<void> {
  const { access, tokens, organization, server, userId } = ended;
  if (access.metadata.revocation_endpoint === undefined) return;
  const at = `server:${organization === undefined ? '' : `${organization}/`}${server}`;
  const note = (outcome: 'done' | 'refused') =>
    audit.append({
      at: clock.now(),
      actor: 'nobody',
      organization,
      action: 'upstream-token.revoke',
      target: userId === undefined ? at : `connection:${userId} ${at}`,
      address: undefined,
      requestId: undefined,
      outcome,
    });
  try {
    await clientOf(access).revoke(tokens);
  } catch (error) {
    if (isFirst) await note('refused');
    throw error;
  }
  await note('done');
}
