import type { AuditEvent, AuditLog } from '#audit/audit-log';
import { hashSecret } from '#credentials/secret-format';
import { errorUrl } from './answer-url.ts';
import type { AskedPerson } from './ask-consent.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { ConsentStore } from './consent-store.ts';
import { consentTerms, type ConsentTermsOutcome, type ConsentTermsPorts } from './consent-terms.ts';
import { grantLifeSeconds } from './grant-store.ts';
import { issueCode, type IssueCodePorts } from './issue-code.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import type { PendingRequest, PendingRequestStore } from './pending-request-store.ts';
import { notPermittedWords } from './permitted-scopes.ts';
import { redirectPlace } from './redirect-match.ts';

/** What a person answered on the consent page. */
export interface Decision {
  readonly requestId: string | undefined;
  readonly allow: boolean;
}

/** What changed between the page and the answer, so that the person cannot allow what they were shown. */
export type RightsChange =
  | Exclude<ConsentTermsOutcome['outcome'], 'terms'>
  /** Their role, or the client's own scopes, cover less. */
  | 'less'
  /** The server was removed, and another one has its name. */
  | 'replaced';

const changeWords: Readonly<Record<RightsChange, string>> = {
  ...notPermittedWords,
  'second-factor': 'the organization requires a second factor now',
  less: 'this person can allow less than the page showed',
  replaced: 'another server has the name of the one that the page showed',
};

export type DecisionOutcome =
  /** Not asked, not in this session, or answered before. */
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'redirect'; readonly location: string }
  /** The person said yes and is told why it came to nothing; `location` tells the client. */
  | {
      readonly outcome: 'changed';
      readonly why: RightsChange;
      readonly target: AuthorizationRequest;
      readonly location: string;
    };

export interface DecideConsentPorts extends ConsentTermsPorts, IssueCodePorts {
  readonly consents: ConsentStore;
  readonly pendingRequests: Pick<PendingRequestStore, 'take'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * Carries out what a person decided. The id of the request counts once, and only in the session that was
 * shown the page: another site that makes the browser post has neither. What is granted is what the page showed: rights
 * that grew since add nothing, and rights that shrank grant nothing.
 *
 * RFC 6749 §10.12, RFC 9700 §4.7
 *
 * @throws {OAuthRefusal} `invalid_client`, `invalid_request` when the client was removed or changed meanwhile.
 */
export async function decideConsent(
  { requestId, allow }: Decision,
  { userId, sessionId, factors }: AskedPerson,
  ports: DecideConsentPorts,
): Promise<DecisionOutcome> {
  const { base, pendingRequests, clock } = ports;
  const actor = `user:${userId}`;
  const pending =
    requestId === undefined
      ? undefined
      : await pendingRequests.take(hashSecret(requestId), sessionId, clock.now());
  if (!pending || pending.userId !== userId) {
    await note({ actor, action: 'consent.decide', outcome: 'refused' }, ports);
    return { outcome: 'refused' };
  }
  const { request, shown } = pending;
  const about = {
    actor,
    organization: request.serverPath.split('/')[0],
    target: `${request.clientId} ${request.serverPath}`,
  };
  if (!allow) {
    await note({ ...about, action: 'consent.deny', outcome: 'done' }, ports);
    const denied = new OAuthRefusal('access_denied', 'the person did not allow it');
    return { outcome: 'redirect', location: errorUrl(request, denied, base) };
  }
  let why: RightsChange | undefined;
  try {
    why = rightsChange(await consentTerms(request, { userId, factors }, ports), shown);
  } catch (refusal) {
    if (refusal instanceof OAuthRefusal) {
      await note({ ...about, action: 'consent.client-changed', outcome: 'refused' }, ports);
    }
    throw refusal;
  }
  if (why !== undefined) {
    await note({ ...about, action: 'consent.rights-changed', outcome: 'refused' }, ports);
    const changed = `rights changed while the person was asked: ${changeWords[why]}`;
    const location = errorUrl(request, new OAuthRefusal('access_denied', changed), base);
    return { outcome: 'changed', why, target: request, location };
  }
  await remember(request, userId, shown, ports);
  await note({ ...about, action: 'consent.allow', outcome: 'done' }, ports);
  return {
    outcome: 'redirect',
    location: await issueCode(request, { userId, ...shown }, ports),
  };
}

function rightsChange(
  found: ConsentTermsOutcome,
  shown: PendingRequest['shown'],
): RightsChange | undefined {
  if (found.outcome !== 'terms') return found.outcome;
  if (found.terms.serverId !== shown.serverId) return 'replaced';
  return shown.scopes.every((scope) => found.terms.scopes.includes(scope)) ? undefined : 'less';
}

async function remember(
  { clientId, redirectUri }: AuthorizationRequest,
  userId: string,
  { serverId, scopes }: PendingRequest['shown'],
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
