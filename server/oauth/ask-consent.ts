import type { AuditLog } from '#audit/audit-log';
import type { EpochSeconds } from '#clock/clock';
import { hashSecret, randomBase62 } from '#credentials/secret-format';
import { errorAnswer, type ErrorAnswer } from './answer-url.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { ConsentStore } from './consent-store.ts';
import { consentTerms, type ConsentTerms, type ConsentTermsPorts } from './consent-terms.ts';
import { grantLifeSeconds } from './grant-store.ts';
import { issueCode, type IssueCodePorts } from './issue-code.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { notPermittedWords } from './permitted-scopes.ts';
import type { PendingRequestStore } from './pending-request-store.ts';
import { redirectPlace, type RedirectPlace } from './redirect-match.ts';

const pendingLifeSeconds = 1800;

/** The person who is asked, in the session in which they are asked. */
export interface AskedPerson {
  readonly userId: string;
  readonly sessionId: string;
  /** How many factors the session proved. */
  readonly factors: 1 | 2;
}

/** What the consent page says. */
export interface ConsentQuestion {
  /** Comes back with the decision, once. */
  readonly requestId: string;
  readonly request: AuthorizationRequest;
  readonly terms: ConsentTerms;
  readonly place: RedirectPlace;
  readonly until: EpochSeconds;
}

export type ConsentOutcome =
  | { readonly outcome: 'second-factor' }
  /** With a code, or with the reason why the person cannot give one. */
  | Extract<ErrorAnswer, { outcome: 'redirect' }>
  | (Extract<ErrorAnswer, { outcome: 'refused' }> & {
      readonly why: keyof typeof notPermittedWords;
    })
  | { readonly outcome: 'ask'; readonly question: ConsentQuestion };

export interface AskConsentPorts extends ConsentTermsPorts, IssueCodePorts {
  readonly consents: Pick<ConsentStore, 'allowed'>;
  readonly pendingRequests: Pick<PendingRequestStore, 'add'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * Asks a person for what a client wants, unless the same was allowed before: at most these scopes, at
 * this server, for the same site. Whatever listens on this computer or has a scheme could be another
 * program each time, so there the question is always put.
 *
 * RFC 6749 §10.2, RFC 8252 §8.6
 *
 * @throws {OAuthRefusal} `invalid_client`
 */
export async function askConsent(
  request: AuthorizationRequest,
  { userId, sessionId, factors }: AskedPerson,
  ports: AskConsentPorts,
): Promise<ConsentOutcome> {
  const { base, clock, consents, pendingRequests, audit } = ports;
  const now = clock.now();
  const place = redirectPlace(request.redirectUri);
  const found = await consentTerms(request, { userId, factors }, ports);
  if (found.outcome === 'second-factor') return found;
  if (found.outcome !== 'terms') {
    await audit.append({
      at: now,
      actor: `user:${userId}`,
      organization: request.serverPath.split('/')[0],
      action: 'consent.ask',
      target: `${request.clientId} ${request.serverPath}`,
      address: undefined,
      requestId: undefined,
      outcome: 'refused',
    });
    const refusal = new OAuthRefusal('access_denied', notPermittedWords[found.outcome]);
    const told = errorAnswer(request, refusal, base);
    return told.outcome === 'redirect' ? told : { ...told, why: found.outcome };
  }
  const { terms } = found;
  const { serverId, scopes } = terms;
  if (place.kind === 'site') {
    const subject = { userId, clientId: request.clientId, serverId, redirectHost: place.host };
    const allowed = await consents.allowed(subject, now);
    if (scopes.every((scope) => allowed.includes(scope))) {
      const location = await issueCode(request, { userId, serverId, scopes }, ports);
      await audit.append({
        at: now,
        actor: `user:${userId}`,
        organization: request.serverPath.split('/')[0],
        action: 'consent.remembered',
        target: `${request.clientId} ${request.serverPath}`,
        address: undefined,
        requestId: undefined,
        outcome: 'done',
      });
      return { outcome: 'redirect', location };
    }
  }
  const requestId = randomBase62(30);
  const expiresAt = now + pendingLifeSeconds;
  const idHash = hashSecret(requestId);
  const shown = { serverId, scopes };
  await pendingRequests.add({ idHash, sessionId, userId, request, shown, expiresAt }, now);
  const until = now + grantLifeSeconds;
  return { outcome: 'ask', question: { requestId, request, terms, place, until } };
}
