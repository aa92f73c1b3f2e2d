import type { AuditEvent } from '#db/audit';
import type { ContentSettings } from '#model/call-contents';
import type { EpochSeconds } from '#model/clock';
import {
  deleteConsents,
  findConsent,
  insertPendingRequest,
  putConsent,
  takePendingRequest,
  type PendingRequest,
} from '#db/consents';
import { type AuthorizationCode, insertAuthorizationCode } from '#db/authorization-codes';
import { type NamedDevice, recordDevice } from '#db/devices';
import { findOrganization } from '#db/organizations';
import { findServer } from '#db/servers';
import { listOpenMemberships } from '#db/people';
import { lockSession, type Session, type SessionThrough } from '#db/sessions';
import { findSettings } from '#db/settings';
import { transaction, type Db } from '#db/transaction';
import { missingProof } from '#model/sign-in-proof';
import { parseServerPath, partsOf } from '#model/slug';
import { errorAnswer, errorUrl, answerUrl, type ErrorAnswer } from './authorization-request.ts';
import type { AuthorizationRequest, ClaimedDevice } from '#model/authorization-request';
import { note, type NotePorts } from './audit-notes.ts';
import type { ClientContext } from './client-authentication.ts';
import type { ResolveClient } from './client-documents.ts';
import { OAuthError } from './oauth-error.ts';
import { notPermittedWords, permittedScopes, type Permitted } from './permitted-scopes.ts';
import { redirectPlace, matchesRedirectUri, type RedirectPlace } from './redirect-uris.ts';
import { limitedScopes, type Scope } from '#model/scopes';
import type { ToolSelection } from '#model/tool-rights';
import { hashSecret, randomBase62, mintSecret } from '#secrets/secrets';
import { grantLifeSeconds } from '#model/lifetimes';

/** How long a consent page may be answered. */
export const pendingLifeSeconds = 1800;

/** The dependencies of requesting consent and deciding about it. */
export interface ConsentContext extends ClientContext, NotePorts {
  readonly resolveClient: ResolveClient;
}

/** The person who is asked, and their session. */
export interface AskedPerson {
  readonly userId: string;
  readonly sessionId: string;
  /** How many factors the person proved to sign in, and the organization that their session is limited to. */
  readonly factors: 1 | 2;
  readonly through: SessionThrough | undefined;
}

/** The content of the consent page. */
export interface ConsentQuestion {
  /** Returned with the decision. Valid once. */
  readonly requestId: string;
  readonly request: AuthorizationRequest;
  readonly terms: ConsentTerms;
  readonly place: RedirectPlace;
  readonly until: EpochSeconds;
}

export type ConsentOutcome =
  /** `signed-out`: the session has just ended. */
  | { readonly outcome: 'second-factor' | 'single-sign-on' | 'signed-out' }
  /** With a code, or with the reason why the person cannot grant one. */
  | Extract<ErrorAnswer, { outcome: 'redirect' }>
  | (Extract<ErrorAnswer, { outcome: 'refused' }> & {
      readonly why: keyof typeof notPermittedWords;
    })
  | { readonly outcome: 'ask'; readonly question: ConsentQuestion };

/**
 * Asks a person to consent to an authorization request. The question is skipped if they consented before to at least
 * these scopes, at this server, for the same web site. Redirect URIs with a private scheme or on loopback may belong to
 * a different program each time, so for these the person is always asked.
 *
 * RFC 6749 §10.2, RFC 8252 §8.6
 *
 * @throws {OAuthError} `invalid_client`
 */
export async function askConsent(
  request: AuthorizationRequest,
  person: AskedPerson,
  ports: ConsentContext,
): Promise<ConsentOutcome> {
  const { base, clock, db } = ports;
  const { userId, sessionId } = person;
  const now = clock.now();
  const place = redirectPlace(request.redirectUri);
  const found = await consentTerms(request, person, ports);
  if (found.outcome === 'second-factor' || found.outcome === 'single-sign-on') return found;
  if (found.outcome !== 'terms') {
    await note(
      { ...aboutRequest(request, userId), action: 'consent.ask', outcome: 'refused' },
      ports,
    );
    const refusal = new OAuthError('access_denied', notPermittedWords[found.outcome]);
    const answer = errorAnswer(request, refusal, base);
    return answer.outcome === 'redirect' ? answer : { ...answer, why: found.outcome };
  }
  const { terms } = found;
  const { serverId, scopes } = terms;
  if (place.kind === 'site') {
    const subject = { userId, clientId: request.clientId, serverId, redirectHost: place.host };
    const allowed = await findConsent(db, subject, now);
    if (scopes.every((scope) => allowed.includes(scope))) {
      return handedOver(person, ports, async (within) => {
        await note(
          { ...aboutRequest(request, userId), action: 'consent.remembered', outcome: 'done' },
          within,
        );
        return issueCode(request, { userId, serverId, scopes }, within);
      });
    }
  }
  const requestId = randomBase62(30);
  const expiresAt = now + pendingLifeSeconds;
  const idHash = hashSecret(requestId);
  const shown = { serverId, scopes };
  await insertPendingRequest(db, { idHash, sessionId, userId, request, shown, expiresAt }, now);
  const until = now + grantLifeSeconds;
  return { outcome: 'ask', question: { requestId, request, terms, place, until } };
}

/** A person's decision on the consent page. */
export interface Decision {
  readonly requestId: string | undefined;
  readonly allow: boolean;
  /** The selection to which the application is limited, within what the scopes allow. Default: all. */
  readonly tools?: ToolSelection | undefined;
}

/** The change between page and answer because of which the person can no longer grant what the page showed. */
export type RightsChange =
  | Exclude<ConsentTermsOutcome['outcome'], 'terms'>
  /** The person's role, or the client, now has fewer scopes. */
  | 'less'
  /** The server was removed, and another one has its name. */
  | 'replaced';

const changeWords: Readonly<Record<RightsChange, string>> = {
  ...notPermittedWords,
  'second-factor': 'the organization now requires a second factor',
  'single-sign-on': 'the organization now requires single sign-on',
  less: 'this person can no longer grant all scopes that the page showed',
  replaced: 'the server that the page showed was replaced by another one',
};

export type DecisionOutcome =
  /** The request is unknown, belongs to another session or was answered before. */
  | { readonly outcome: 'refused' }
  /** The session has just ended. */
  | { readonly outcome: 'signed-out' }
  | { readonly outcome: 'redirect'; readonly location: string }
  /** The person agreed but cannot grant the access, and a page explains why; `location` tells the client. */
  | {
      readonly outcome: 'changed';
      readonly why: RightsChange;
      readonly target: AuthorizationRequest;
      readonly location: string;
    };

/**
 * Carries out a person's decision. The request id is valid once and only in the session that was shown the page;
 * another site that makes the browser post does not know it. Only what the page displayed is granted: scopes that the
 * person gained since then are not added, and if they lost one, nothing is granted.
 *
 * RFC 6749 §10.12, RFC 9700 §4.7
 *
 * @throws {OAuthError} `invalid_client`, `invalid_request` when the client was removed or changed meanwhile.
 */
export async function decideConsent(
  { requestId, allow, tools = everything }: Decision,
  person: AskedPerson,
  ports: ConsentContext,
): Promise<DecisionOutcome> {
  const { base } = ports;
  const { userId } = person;
  const pending = await takeAsked(requestId, takePendingRequest, person, ports);
  if (!pending) return { outcome: 'refused' };
  const { request, shown } = pending;
  const about = aboutRequest(request, userId);
  if (!allow) {
    await note({ ...about, action: 'consent.deny', outcome: 'done' }, ports);
    const denied = new OAuthError('access_denied', 'the person denied access');
    return { outcome: 'redirect', location: errorUrl(request, denied, base) };
  }
  const check = async () => rightsChange(await consentTerms(request, person, ports), shown);
  const why = await checkedClient([about], check, ports);
  if (why !== undefined) {
    await note({ ...about, action: 'consent.rights-changed', outcome: 'refused' }, ports);
    const changed = `permissions changed during the consent: ${changeWords[why]}`;
    const location = errorUrl(request, new OAuthError('access_denied', changed), base);
    return { outcome: 'changed', why, target: request, location };
  }
  return handedOver(person, ports, async (within) => {
    const granted = { ...shown, scopes: limitedScopes(shown.scopes, [tools]), tools };
    await remember(request, userId, granted, within);
    await note({ ...about, action: 'consent.allow', outcome: 'done' }, within);
    return issueCode(request, { userId, ...granted }, within);
  });
}

/** Takes the question that a person answers. `undefined`, which is audited, if this session was not asked it or has answered it before. */
export async function takeAsked<Pending extends Pick<PendingRequest, 'userId'>>(
  requestId: string | undefined,
  take: (
    db: Db,
    idHash: string,
    sessionId: string,
    now: EpochSeconds,
  ) => Promise<Pending | undefined>,
  { userId, sessionId }: AskedPerson,
  ports: ConsentContext,
): Promise<Pending | undefined> {
  const { db, clock } = ports;
  const pending =
    requestId === undefined
      ? undefined
      : await take(db, hashSecret(requestId), sessionId, clock.now());
  if (pending?.userId === userId) return pending;
  await note({ actor: `user:${userId}`, action: 'consent.decide', outcome: 'refused' }, ports);
  return undefined;
}

/** A decision about a server, as the audit log names it. */
export interface DecidedAbout extends Pick<AuditEvent, 'actor'> {
  readonly organization: string | undefined;
  readonly target: string;
}

export function aboutRequest(
  { clientId, serverPath }: Pick<AuthorizationRequest, 'clientId' | 'serverPath'>,
  userId: string,
): DecidedAbout {
  const { organization } = partsOf(serverPath);
  return { actor: `user:${userId}`, organization, target: `${clientId} ${serverPath}` };
}

/** Runs `check`. If that throws because the client was removed or changed meanwhile, the audit log gets an entry for each server. */
export async function checkedClient<Result>(
  decided: readonly DecidedAbout[],
  check: () => Promise<Result>,
  ports: ConsentContext,
): Promise<Result> {
  try {
    return await check();
  } catch (refusal) {
    if (!(refusal instanceof OAuthError)) throw refusal;
    for (const about of decided) {
      await note({ ...about, action: 'consent.client-changed', outcome: 'refused' }, ports);
    }
    throw refusal;
  }
}

/**
 * Issues a code, unless the session ended before. A transaction that ends sessions waits for one that issues a code, and then deletes that
 * code.
 */
export async function handedOver(
  { sessionId }: Pick<AskedPerson, 'sessionId'>,
  ports: ConsentContext,
  issue: (within: ConsentContext) => Promise<string>,
): Promise<
  { readonly outcome: 'signed-out' } | { readonly outcome: 'redirect'; readonly location: string }
> {
  const { db, clock } = ports;
  const location = await transaction(db, async (tx) =>
    (await lockSession(tx, sessionId, clock.now())) ? issue({ ...ports, db: tx }) : undefined,
  );
  return location === undefined ? { outcome: 'signed-out' } : { outcome: 'redirect', location };
}

export function rightsChange(
  found: ConsentTermsOutcome,
  shown: { readonly serverId: string; readonly scopes: readonly Scope[] },
): RightsChange | undefined {
  if (found.outcome !== 'terms') return found.outcome;
  if (found.terms.serverId !== shown.serverId) return 'replaced';
  return shown.scopes.every((scope) => found.terms.scopes.includes(scope)) ? undefined : 'less';
}

/** Only consent without limits is remembered, so that no later grant is wider than what the person chose last. */
async function remember(
  { clientId, redirectUri }: AuthorizationRequest,
  userId: string,
  { serverId, scopes, tools }: PendingRequest['shown'] & { readonly tools: ToolSelection },
  { db, clock }: ConsentContext,
): Promise<void> {
  if (tools.type !== 'all') return deleteConsents(db, { userId, clientId, serverId });
  const { kind, host: redirectHost } = redirectPlace(redirectUri);
  if (kind !== 'site') return;
  const subject = { userId, clientId, serverId, redirectHost };
  const before = await findConsent(db, subject, clock.now());
  const all = [...new Set([...before, ...scopes])];
  await putConsent(db, subject, all, clock.now() + grantLifeSeconds);
}

export const everything: ToolSelection = { type: 'all' };
const codeLifeSeconds = 60;

/**
 * Issues an authorization code for a grant. Returns the redirect URI that carries it. RFC 6749 §4.1.2, RFC 9207 §2
 */
export async function issueCode(
  request: CodeRequest & Pick<AuthorizationRequest, 'state'>,
  { tools = everything, ...granted }: Granted,
  ports: ClientContext,
): Promise<string> {
  const { code, stored } = await newCode(request, granted.userId, ports);
  const grantId = `grant_${randomBase62(16)}`;
  const kept = { ...stored, ...granted, tools, grantId };
  await insertAuthorizationCode(ports.db, kept, ports.clock.now());
  return answerUrl(request, { code }, ports.base);
}

interface Granted extends Pick<AuthorizationCode, 'userId' | 'serverId' | 'scopes'> {
  /** Default: all. */
  readonly tools?: ToolSelection;
}

type CodeRequest = Pick<
  AuthorizationRequest,
  'clientId' | 'redirectUri' | 'codeChallenge' | 'assistant' | 'device'
>;

/** A code, and what is stored of every code, for one server or for several. */
export async function newCode(
  { clientId, redirectUri, codeChallenge, assistant, device }: CodeRequest,
  userId: string,
  { db, clock }: Pick<ClientContext, 'db' | 'clock'>,
) {
  const code = mintSecret('code_');
  const hash = hashSecret(code);
  const expiresAt = clock.now() + codeLifeSeconds;
  const deviceId = device && (await recordDevice(db, userId, namedDevice(device), clock.now()));
  const proof = { hash, redirectUri, codeChallenge, expiresAt };
  return { code, stored: { ...proof, userId, clientId, assistant, deviceId } };
}

/** A device under an id that only we know. The device may already be known under another id. */
export function namedDevice({ id: claimed, name, system }: ClaimedDevice): NamedDevice {
  return { id: `device_${randomBase62(16)}`, claimHash: hashSecret(claimed), name, system };
}

/** Which of the requested scopes a person may grant. */
export interface ConsentTerms {
  readonly serverId: string;
  /** The titles of the organization and its server; empty where they have none. */
  readonly titles: { readonly organization: string; readonly server: string };
  /** At least one. */
  readonly scopes: readonly Scope[];
  /** Requested, but beyond the person's role. */
  readonly withheld: readonly Scope[];
  /** The settings for storing the arguments and results of calls at the server. */
  readonly contents: ContentSettings | undefined;
}

export type ConsentTermsOutcome =
  | { readonly outcome: 'terms'; readonly terms: ConsentTerms }
  /** Not a member, not in a group with access, or the server is missing or disabled. Deliberately not distinguished. */
  | { readonly outcome: 'stranger' }
  /** The person is a member, but may not grant this. */
  | Extract<Permitted, { outcome: 'closed' | 'proxy-closed' | 'nothing' }>
  /** The person is a member, but must first sign in as the organization requires. */
  | { readonly outcome: 'second-factor' | 'single-sign-on' };

/**
 * The terms that this person may grant now. Checked when the page is shown and again when it is answered.
 *
 * @throws {OAuthError} `invalid_client` when the client was removed or revoked, `invalid_request` when the redirect
 * URI is no longer registered
 */
export async function consentTerms(
  request: AuthorizationRequest,
  { userId, factors, through }: Pick<Session, 'userId' | 'factors' | 'through'>,
  ports: Pick<ConsentContext, 'db' | 'resolveClient'>,
): Promise<ConsentTermsOutcome> {
  const { resolveClient, db } = ports;
  const { clientId, serverPath } = request;
  const client = await resolveClient(clientId, { userId });
  const place = parseServerPath(serverPath);
  if (client === 'sign-in' || !place) return { outcome: 'stranger' };
  if (!client.redirectUris.some((uri) => matchesRedirectUri(request.redirectUri, uri))) {
    throw new OAuthError('invalid_request', 'redirect_uri is not registered for the client');
  }
  const about = { userId, serverPath, client };
  const permitted = await permittedScopes(request.scopes, about, ports);
  const organization = await findOrganization(db, place.organization);
  const server = await findServer(db, place.organization, place.server);
  const rules = await findSettings(db, place.organization);
  if (permitted.outcome === 'stranger' || !server || server.disabledAt !== undefined || !rules)
    return { outcome: 'stranger' };
  const memberships = await listOpenMemberships(db, { userId, through });
  const here = memberships.find((membership) => membership.organization === place.organization);
  if (!here) return { outcome: 'stranger' };
  const missing = missingProof({ factors, through }, here.role, rules);
  if (missing) return { outcome: missing };
  if (permitted.outcome !== 'permitted') return permitted;
  const { scopes } = permitted;
  const withheld = request.scopes.filter((scope) => !scopes.includes(scope));
  const titles = { organization: organization?.title ?? '', server: server.title ?? '' };
  const { contents } = server.target;
  return { outcome: 'terms', terms: { serverId: server.id, titles, scopes, withheld, contents } };
}
