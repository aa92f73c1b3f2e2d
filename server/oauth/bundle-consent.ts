import {
  insertBundleCode,
  insertPendingBundle,
  takePendingBundle,
  type ShownServer,
} from '#db/grant-bundles';
import { listDevices } from '#db/devices';
import { listOpenMemberships } from '#db/people';
import { listUsableServers, type UsableServer } from '#db/server-access';
import { listMissingAccounts, type PersonalCredential } from '#db/upstream-connections';
import {
  mostResources,
  type AuthorizationRequest,
  type BundleRequest,
} from '#model/authorization-request';
import type { EpochSeconds } from '#model/clock';
import { limitedScopes } from '#model/scopes';
import type { ToolSelection } from '#model/tool-rights';
import { hashSecret, randomBase62 } from '#secrets/secrets';
import { note } from './audit-notes.ts';
import { answerUrl, errorAnswer, errorUrl, type ErrorAnswer } from './authorization-request.ts';
import {
  aboutRequest,
  checkedClient,
  everything,
  consentTerms,
  handedOver,
  newCode,
  pendingLifeSeconds,
  rightsChange,
  takeAsked,
  type AskedPerson,
  type ConsentContext,
  type ConsentTerms,
  type ConsentTermsOutcome,
  type RightsChange,
} from './consent.ts';
import { OAuthError } from './oauth-error.ts';
import { redirectPlace, type RedirectPlace } from './redirect-uris.ts';
import { grantLifeSeconds } from '#model/lifetimes';

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
  /** The account or key that calls need at its upstream, if the person has not connected or entered it. */
  readonly missing: PersonalCredential | undefined;
  readonly isTicked: boolean;
  /** Whether the person has limited the application to reading there. */
  readonly isReadOnly: boolean;
}

/** A server that the person cannot choose now, and why. */
export interface BundleRefusal {
  readonly serverPath: string;
  readonly why: Exclude<ConsentTermsOutcome['outcome'], 'terms'>;
}

/** The content of the consent page. */
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
  /** The problem with the last answer. */
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
  again: { problem?: BundleProblem; answer?: ChosenServers } = {},
): Promise<BundleConsentOutcome> {
  const { base, clock, db } = ports;
  const { userId, sessionId } = person;
  const now = clock.now();
  const { choices, refused, isCut } = await choicesOf(request, person, ports, again.answer);
  if (choices.length === 0) {
    const about = { actor: `user:${userId}`, target: request.clientId };
    await note({ ...about, action: 'consent.ask', outcome: 'refused' }, ports);
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
  answer: ChosenServers | undefined,
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
  const missing = await listMissingAccounts(ports.db, person.userId, ids);
  const last = await lastServers(request, person, ports);
  const isKnown = open.some(({ serverPath }) => last.has(serverPath));
  const first = isKnown ? (path: string) => last.has(path) : firstTicked(request, open.length);
  const choices = open.map(({ serverPath, terms }) => ({
    serverPath,
    terms,
    description: usable.get(serverPath)?.description ?? '',
    missing: missing.get(terms.serverId),
    isTicked: answer ? answer.chosen.has(terms.serverId) : first(serverPath),
    isReadOnly: answer?.readOnly.has(terms.serverId) ?? false,
  }));
  return { choices, refused, isCut: all.length > paths.length };
}

/** For a device that names no servers yet: the servers that the person uses on the device that they used last. */
async function lastServers(
  { device, serverPaths }: BundleRequest,
  { userId }: AskedPerson,
  { db, clock }: ConsentContext,
): Promise<ReadonlySet<string>> {
  if (!device || serverPaths.length > 0) return new Set();
  const [last] = await listDevices(db, { userId }, clock.now());
  return new Set(last?.grants.map(({ serverPath }) => serverPath));
}

/**
 * The servers that are ticked at first: those that the client named. If it named none, a self-registered program, which anyone can
 * write, gets none; our own proxy, which the person has just started for this, gets all, unless there are too many for it.
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

/** The request that a client would make for one of the servers alone. */
function singleRequest(request: BundleRequest, serverPath: string): AuthorizationRequest {
  return { ...request, serverPath };
}

/** The choices on the consent page, by the ids of servers. */
export interface ChosenServers {
  readonly chosen: ReadonlySet<string>;
  /** Where the application is limited to reading. A server that is not chosen may be among them. */
  readonly readOnly: ReadonlySet<string>;
}

/** A person's decision on the consent page. */
export interface BundleDecision extends ChosenServers {
  readonly requestId: string | undefined;
  readonly allow: boolean;
}

export type BundleDecisionOutcome =
  /** The request is unknown, belongs to another session or was answered before. */
  | { readonly outcome: 'refused' }
  /** The session has just ended. */
  | { readonly outcome: 'signed-out' }
  | { readonly outcome: 'redirect'; readonly location: string }
  /** The choice was impossible, and the page is shown again. */
  | BundleConsentOutcome
  /** The person agreed but cannot grant one of the servers any more, so nothing is granted; `location` tells the client. */
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
  { requestId, allow, chosen, readOnly }: BundleDecision,
  person: AskedPerson,
  ports: ConsentContext,
): Promise<BundleDecisionOutcome> {
  const { base } = ports;
  const { userId } = person;
  const pending = await takeAsked(requestId, takePendingBundle, person, ports);
  if (!pending) return { outcome: 'refused' };
  const { request, shown } = pending;
  const about = ({ serverPath }: ShownServer) =>
    aboutRequest({ clientId: request.clientId, serverPath }, userId);
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
    return askBundle(request, person, ports, { problem, answer: { chosen, readOnly } });
  }
  const check = () => changeAmong(wanted, request, person, ports);
  const change = await checkedClient(wanted.map(about), check, ports);
  if (change) {
    const { one, why } = change;
    await note({ ...about(one), action: 'consent.rights-changed', outcome: 'refused' }, ports);
    const words = 'permissions changed during the consent';
    const location = errorUrl(request, new OAuthError('access_denied', words), base);
    return { outcome: 'changed', why, serverPath: one.serverPath, target: request, location };
  }
  return handedOver(person, ports, async (within) => {
    for (const one of wanted) {
      await note({ ...about(one), action: 'consent.allow', outcome: 'done' }, within);
    }
    const servers = wanted.map((one) => withLimit(one, readOnly.has(one.serverId)));
    return issueBundleCode(request, { userId, servers }, within);
  });
}

/** The first server at which the person can no longer grant what the page displayed. */
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

const onlyReading: ToolSelection = { type: 'read-only' };

/** Issues a code for grants at these servers. Returns the redirect URI that carries it. */
export async function issueBundleCode(
  request: BundleRequest,
  {
    userId,
    servers,
  }: {
    userId: string;
    servers: readonly (ShownServer & { readonly tools: ToolSelection })[];
  },
  { base, db, clock }: Pick<ConsentContext, 'base' | 'db' | 'clock'>,
): Promise<string> {
  const { code, stored } = await newCode(request, userId, { db, clock });
  const bundleId = `bundle_${randomBase62(16)}`;
  const issued = { ...stored, bundleId, listsServers: request.listsServers };
  const parts = servers.map(({ serverId, scopes, tools }) => {
    return { grantId: `grant_${randomBase62(16)}`, serverId, scopes, tools };
  });
  await insertBundleCode(db, issued, parts, clock.now());
  return answerUrl(request, { code }, base);
}

/** A server as the person allows it: with everything that was shown, or only reading. */
function withLimit<Server extends ShownServer>(one: Server, isReading: boolean) {
  const tools = isReading ? onlyReading : everything;
  return { ...one, tools, scopes: limitedScopes(one.scopes, [tools]) };
}
