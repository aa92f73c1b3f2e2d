import type { AuditEvent, AuditLog } from '#audit/audit-log';
import { hashSecret } from '#credentials/secret-format';
import { errorUrl } from './answer-url.ts';
import type { AskedPerson } from './ask-consent.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { ConsentStore } from './consent-store.ts';
import { consentTerms, type ConsentTerms, type ConsentTermsPorts } from './consent-terms.ts';
import { grantLifeSeconds } from './grant-store.ts';
import { issueCode, type IssueCodePorts } from './issue-code.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import type { PendingRequestStore } from './pending-request-store.ts';
import { redirectPlace } from './redirect-match.ts';

/** What a person answered on the consent page. */
export interface Decision {
  readonly requestId: string | undefined;
  readonly allow: boolean;
}

export type DecisionOutcome =
  /** Not asked, not in this session, or answered before. */
  { readonly outcome: 'refused' } | { readonly outcome: 'redirect'; readonly location: string };

export interface DecideConsentPorts extends ConsentTermsPorts, IssueCodePorts {
  readonly consents: ConsentStore;
  readonly pendingRequests: Pick<PendingRequestStore, 'take'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * Carries out what a person decided. The id of the request counts once, and only in the session that was
 * shown the page: another site that makes the browser post has neither.
 *
 * RFC 6749 §10.12, RFC 9700 §4.7
 *
 * @throws {OAuthRefusal} `invalid_client` when the client was removed meanwhile.
 */
export async function decideConsent(
  { requestId, allow }: Decision,
  { userId, sessionId, factors }: AskedPerson,
  ports: DecideConsentPorts,
): Promise<DecisionOutcome> {
  const { base, pendingRequests, clock } = ports;
  const pending =
    requestId === undefined
      ? undefined
      : await pendingRequests.take(hashSecret(requestId), sessionId, clock.now());
  if (!pending || pending.userId !== userId) {
    await note({ actor: `user:${userId}`, action: 'consent.decide', outcome: 'refused' }, ports);
    return { outcome: 'refused' };
  }
  const { request } = pending;
  const found = allow ? await consentTerms(request, { userId, factors }, ports) : undefined;
  const about = {
    actor: `user:${userId}`,
    organization: request.serverPath.split('/')[0],
    target: `${request.clientId} ${request.serverPath}`,
  };
  if (found?.outcome !== 'terms') {
    await note({ ...about, action: 'consent.deny', outcome: 'done' }, ports);
    const refusal = new OAuthRefusal('access_denied', 'the person did not allow it');
    return { outcome: 'redirect', location: errorUrl(request, refusal, base) };
  }
  await remember(request, userId, found.terms, ports);
  await note({ ...about, action: 'consent.allow', outcome: 'done' }, ports);
  const { serverId, scopes } = found.terms;
  const location = await issueCode(request, { userId, serverId, scopes }, ports);
  return { outcome: 'redirect', location };
}

async function remember(
  { clientId, redirectUri }: AuthorizationRequest,
  userId: string,
  { serverId, scopes }: ConsentTerms,
  { consents, clock }: DecideConsentPorts,
): Promise<void> {
  const { kind, host: redirectHost } = redirectPlace(redirectUri);
  if (kind !== 'site') return;
  const subject = { userId, clientId, serverId, redirectHost };
  const before = await consents.allowed(subject, clock.now());
  const all = [...new Set([...before, ...scopes])];
  await consents.remember(subject, all, clock.now() + grantLifeSeconds);
}

type Noted = Pick<AuditEvent, 'actor' | 'action' | 'outcome'> &
  Partial<Pick<AuditEvent, 'organization' | 'target'>>;

async function note(event: Noted, { audit, clock }: DecideConsentPorts): Promise<void> {
  const unknown = { organization: undefined, target: undefined };
  const from = { address: undefined, requestId: undefined };
  await audit.append({ ...unknown, ...from, ...event, at: clock.now() });
}
