import {
  insertBundleCode,
  insertPendingBundle,
  takePendingBundle,
  type ShownServer,
} from '#db/grant-bundles';
import { listOpenMemberships } from '#db/people';
import { listUsableServers, type UsableServer } from '#db/server-access';
import { lockSession } from '#db/sessions';
import { transaction } from '#db/transaction';
import { listMissingAccounts } from '#db/upstream-connections';
import {
  mostResources,
  type AuthorizationRequest,
  type BundleRequest,
} from '#model/authorization-request';
import type { EpochSeconds } from '#model/clock';
import { hashSecret, mintSecret, randomBase62 } from '#secrets/secrets';
import { answerUrl, errorAnswer, errorUrl, type ErrorAnswer } from './authorization-request.ts';
import {
  everything,
  codeLifeSeconds,
  consentTerms,
  handedOver,
  note,
  pendingLifeSeconds,
  rightsChange,
  type AskedPerson,
  type ConsentContext,
  type ConsentTerms,
  type ConsentTermsOutcome,
  type RightsChange,
} from './consent.ts';
import { OAuthError } from './oauth-error.ts';
import { redirectPlace, type RedirectPlace } from './redirect-uris.ts';
import { grantLifeSeconds } from './token-response.ts';

/*
 * Consent to several servers at once. The person chooses among those that the client named and, if it asks for the list, all that
 * they may use. They are always asked: what they allowed before is not remembered here.
 */

/** The most servers on one page. A form that names them all has fewer fields than forms may have. */
const mostShown = 60;

/** A server that the person may choose. */
export interface BundleChoice {
  /** `{organization}/{server}` */
  readonly serverPath: string;
  readonly terms: ConsentTerms;
  /** What the server is for; may be empty. */
  readonly description: string;
  /** Whether calls need an account of the person at its upstream, which they have not connected. */
  readonly needsAccount: boolean;
  readonly isTicked: boolean;
}

/** A server that the person cannot choose now, and why. */
export interface BundleRefusal {
  readonly serverPath: string;
  readonly why: Exclude<ConsentTermsOutcome['outcome'], 'terms'>;
}

/** What the consent page shows. */
export interface BundleQuestion {
  /** Returned with the decision. Valid once. */
  readonly requestId: string;
  readonly request: BundleRequest;
  readonly choices: readonly BundleChoice[];
  readonly refused: readonly BundleRefusal[];
  /** Whether there are more servers than fit on a page. */
  readonly isCut: boolean;
  readonly place: RedirectPlace;
  readonly until: EpochSeconds;
  /** What was wrong with the last answer. */
  readonly problem?: BundleProblem | undefined;
}

export type BundleProblem = 'none-chosen' | 'too-many';

export type BundleConsentOutcome =
  | { readonly outcome: 'ask'; readonly question: BundleQuestion }
  /** No server can be chosen. `refused` may be empty: then the person may use none. */
  | {
      readonly outcome: 'nothing';
      readonly refused: readonly BundleRefusal[];
      readonly answer: ErrorAnswer;
    };

/**
 * Asks a person which servers an application may use.
 *
 * RFC 8707 §2
 *
 * @throws {OAuthError} `invalid_client`
 */
export async function askBundle(
  request: BundleRequest,
  person: AskedPerson,
  ports: ConsentContext,
  again: { problem?: BundleProblem; ticked?: ReadonlySet<string> } = {},
): Promise<BundleConsentOutcome> {
  const { base, clock, db } = ports;
  const { userId, sessionId } = person;
  const now = clock.now();
  const { choices, refused, isCut } = await choicesOf(request, person, ports, again.ticked);
  if (choices.length === 0) {
    const about = { organization: undefined, target: request.clientId };
    await note(
      { actor: `user:${userId}`, ...about, action: 'consent.ask', outcome: 'refused' },
      ports,
    );
    const refusal = new OAuthError('access_denied', 'this person can use none of these servers');
    return { outcome: 'nothing', refused, answer: errorAnswer(request, refusal, base) };
  }
  const requestId = randomBase62(30);
  const shown = choices.map(({ serverPath, terms }): ShownServer => {
    return { serverPath, serverId: terms.serverId, scopes: terms.scopes };
  });
  const expiresAt = now + pendingLifeSeconds;
  const idHash = hashSecret(requestId);
  await insertPendingBundle(db, { idHash, sessionId, userId, request, shown, expiresAt }, now);
  const place = redirectPlace(request.redirectUri);
  const until = now + grantLifeSeconds;
  const { problem } = again;
  return {
    outcome: 'ask',
    question: { requestId, request, choices, refused, isCut, place, until, problem },
  };
}

/** The servers on the page, with what the person may grant at each. */
async function choicesOf(
  request: BundleRequest,
  person: AskedPerson,
  ports: ConsentContext,
  ticked: ReadonlySet<string> | undefined,
): Promise<Pick<BundleQuestion, 'choices' | 'refused' | 'isCut'>> {
  const usable = await usableServers(person, ports);
  const listed = request.listsServers ? [...usable.keys()] : [];
  const all = [...new Set([...request.serverPaths, ...listed])];
  const paths = all.slice(0, mostShown);
  const client = await ports.resolveClient(request.clientId, { userId: person.userId });
  const resolved = { ...ports, resolveClient: async () => client };
  const open: { serverPath: string; terms: ConsentTerms }[] = [];
  const refused: BundleRefusal[] = [];
  for (const serverPath of paths.toSorted()) {
    const found = await consentTerms(singleRequest(request, serverPath), person, resolved);
    if (found.outcome === 'terms') open.push({ serverPath, terms: found.terms });
    else refused.push({ serverPath, why: found.outcome });
  }
  const ids = open.map(({ terms }) => terms.serverId);
  const missing = new Set(await listMissingAccounts(ports.db, person.userId, ids));
  const first = firstTicked(request, open.length);
  const choices = open.map(({ serverPath, terms }) => ({
    serverPath,
    terms,
    description: usable.get(serverPath)?.description ?? '',
    needsAccount: missing.has(terms.serverId),
    isTicked: ticked ? ticked.has(terms.serverId) : first(serverPath),
  }));
  return { choices, refused, isCut: all.length > paths.length };
}

/**
 * What is ticked at first: the servers that the client named. If it named none, a program that anyone can write gets none; our own
 * proxy, which the person has just started for this, gets all that it can carry.
 */
function firstTicked(
  { serverPaths, isSelfRegistered }: BundleRequest,
  count: number,
): (serverPath: string) => boolean {
  if (serverPaths.length > 0) return (serverPath) => serverPaths.includes(serverPath);
  return () => !isSelfRegistered && count <= mostResources;
}

/** The servers that the person may use in the organizations that this session opens, by `{organization}/{server}`. */
async function usableServers(
  { userId, through }: AskedPerson,
  { db }: ConsentContext,
): Promise<ReadonlyMap<string, UsableServer>> {
  const all = new Map<string, UsableServer>();
  for (const { organization } of await listOpenMemberships(db, { userId, through })) {
    const servers = await listUsableServers(db, userId, organization, mostShown);
    for (const server of servers) all.set(`${organization}/${server.name}`, server);
  }
  return all;
}

/** The request for one of the servers, as a client would make it that wants nothing else. */
function singleRequest(request: BundleRequest, serverPath: string): AuthorizationRequest {
  return { ...request, serverPath };
}

/** A person's decision on the consent page. */
export interface BundleDecision {
  readonly requestId: string | undefined;
  readonly allow: boolean;
  /** The ids of the servers that are ticked. */
  readonly chosen: ReadonlySet<string>;
}

export type BundleDecisionOutcome =
  /** The request is unknown, belongs to another session or was answered before. */
  | { readonly outcome: 'refused' }
  /** The session has just ended. */
  | { readonly outcome: 'signed-out' }
  | { readonly outcome: 'redirect'; readonly location: string }
  /** The choice was impossible, and the page is shown again. */
  | BundleConsentOutcome
  /** The person agreed but cannot grant one of them any more, so nothing is granted; `location` tells the client. */
  | {
      readonly outcome: 'changed';
      readonly why: RightsChange;
      readonly serverPath: string;
      readonly target: BundleRequest;
      readonly location: string;
    };

/**
 * Carries out a person's decision, as `decideConsent` does. Only servers that the page displayed can be chosen.
 *
 * @throws {OAuthError} `invalid_client`, `invalid_request` when the client was removed or changed meanwhile.
 */
export async function decideBundle(
  { requestId, allow, chosen }: BundleDecision,
  person: AskedPerson,
  ports: ConsentContext,
): Promise<BundleDecisionOutcome> {
  const { base, db, clock } = ports;
  const { userId, sessionId } = person;
  const actor = `user:${userId}`;
  const pending =
    requestId === undefined
      ? undefined
      : await takePendingBundle(db, hashSecret(requestId), sessionId, clock.now());
  if (!pending || pending.userId !== userId) {
    await note({ actor, action: 'consent.decide', outcome: 'refused' }, ports);
    return { outcome: 'refused' };
  }
  const { request, shown } = pending;
  const about = ({ serverPath }: ShownServer) => ({
    actor,
    organization: serverPath.split('/')[0],
    target: `${request.clientId} ${serverPath}`,
  });
  if (!allow) {
    for (const one of shown) {
      await note({ ...about(one), action: 'consent.deny', outcome: 'done' }, ports);
    }
    const denied = new OAuthError('access_denied', 'the person denied access');
    return { outcome: 'redirect', location: errorUrl(request, denied, base) };
  }
  const wanted = shown.filter(({ serverId }) => chosen.has(serverId));
  if (wanted.length === 0 || wanted.length > mostResources) {
    const problem = wanted.length === 0 ? 'none-chosen' : 'too-many';
    return askBundle(request, person, ports, { problem, ticked: chosen });
  }
  const change = await changeAmong(wanted, request, person, ports);
  if (change) {
    const { one, why } = change;
    await note({ ...about(one), action: 'consent.rights-changed', outcome: 'refused' }, ports);
    const words = 'permissions changed during the consent';
    const location = errorUrl(request, new OAuthError('access_denied', words), base);
    return { outcome: 'changed', why, serverPath: one.serverPath, target: request, location };
  }
  const location = await transaction(db, async (tx) => {
    if (!(await lockSession(tx, sessionId, clock.now()))) return undefined;
    const within = { ...ports, db: tx };
    for (const one of wanted) {
      await note({ ...about(one), action: 'consent.allow', outcome: 'done' }, within);
    }
    return issueBundleCode(request, { userId, servers: wanted }, within);
  });
  return handedOver(location);
}

/** The first server of which the person can no longer grant what the page displayed. */
async function changeAmong(
  wanted: readonly ShownServer[],
  request: BundleRequest,
  person: AskedPerson,
  ports: ConsentContext,
): Promise<{ one: ShownServer; why: RightsChange } | undefined> {
  const client = await ports.resolveClient(request.clientId, { userId: person.userId });
  const resolved = { ...ports, resolveClient: async () => client };
  for (const one of wanted) {
    const found = await consentTerms(singleRequest(request, one.serverPath), person, resolved);
    const why = rightsChange(found, one);
    if (why !== undefined) return { one, why };
  }
  return undefined;
}

/** Issues a code for grants at these servers. Returns the redirect URI that carries it. */
export async function issueBundleCode(
  request: BundleRequest,
  { userId, servers }: { userId: string; servers: readonly ShownServer[] },
  { base, db, clock }: Pick<ConsentContext, 'base' | 'db' | 'clock'>,
): Promise<string> {
  const { clientId, redirectUri, codeChallenge, assistant, listsServers } = request;
  const code = mintSecret('code_');
  const now = clock.now();
  const issued = {
    hash: hashSecret(code),
    bundleId: `bundle_${randomBase62(16)}`,
    userId,
    clientId,
    listsServers,
    redirectUri,
    codeChallenge,
    assistant,
    expiresAt: now + codeLifeSeconds,
  };
  const parts = servers.map(({ serverId, scopes }) => {
    return { grantId: `grant_${randomBase62(16)}`, serverId, scopes, tools: everything };
  });
  await insertBundleCode(db, issued, parts, now);
  return answerUrl(request, { code }, base);
}
