import type { ServerRecord } from '#model/endpoints';
import type { Clock } from '#model/clock';
import type { Scope } from '#model/scopes';
import { ToolRights } from '#model/tool-rights';
import { suspended } from '#model/suspension';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';
import type { AccessTokenClaims, AccessTokens } from '#oauth/access-tokens';
import { type Awaitable, whenReady } from '#model/awaitable';
import { headerLines } from 'latchkey-mcp/headers';
import { GatewayRefusal, type SuspendedCall } from './gateway-refusal.ts';
import type { ProvedCredential } from './request.ts';
import type { AdmissionStore, AdmittedClient, Suspended } from '#db/admissions';

/** The right of a request to enter: who calls, which server, and what they may do there. */
export interface Admission {
  /** The owner of upstream sessions: the same for every token of one client. */
  readonly principal: string;
  readonly credential: { readonly type: 'client' | 'key' | 'person'; readonly id: string };
  /** The person who calls, or for whom an application acts; absent if the application acts for itself. */
  readonly userId?: string;
  /** The grant by which the client acts for the person, if there is one. */
  readonly grantId?: string;
  readonly scopes: readonly Scope[];
  readonly endpoint: ServerRecord;
  /** What the caller may use of the server. */
  readonly rights: ToolRights;
  /** Identifies the key, the token or the person, without a secret. */
  readonly reference: string;
  /** Looks up the scopes and rights that the credential has now; `undefined` if it would not be admitted. */
  readonly now: () => Promise<Granted | undefined>;
  /** The access that also admits the caller's next requests, even with another token. */
  readonly access: Access;
  /** The proved credential of the caller. A collection passes it on to its members. */
  readonly proved: ProvedCredential;
}

/** The scopes and rights of a caller. */
export interface Granted {
  readonly scopes: readonly Scope[];
  readonly rights: ToolRights;
}

/** The access with which a caller can return even after the token of this request has ended: a key, a client and its grant, or a person. */
export interface Access {
  /** Distinguishes it from other accesses of the same caller. */
  readonly name: string;
  /** Whether it would admit the caller now. */
  readonly isActive: () => Promise<boolean>;
}

/** The owner of sessions, links and waiting calls: a principal at an endpoint. */
export function ownerOf(principal: string, endpointId: string): string {
  return `${principal} ${endpointId}`;
}

/** The one credential that a request carries, classified by its form. Not checked yet. */
export type PresentedCredential =
  | { readonly type: 'key'; readonly key: string }
  | { readonly type: 'token'; readonly token: string };

/**
 * Reads the credential from the headers, and from nowhere else. `Bearer mcp_…` is a key, because many assistants can
 * set no other header. Two credentials, or one header twice, are refused: a proxy in front might choose one, and this
 * server the other.
 *
 * RFC 6750 §2.1
 *
 * @throws {GatewayRefusal} `no_credential`, `two_credentials`, `bad_credential`
 */
export function presentedCredential(rawHeaders: readonly string[]): PresentedCredential {
  const [only, another] = headerLines(rawHeaders, 'authorization', 'x-api-key');
  if (!only) throw new GatewayRefusal('no_credential');
  if (another) throw new GatewayRefusal('two_credentials');
  if (only.name === 'x-api-key') return { type: 'key', key: only.value };
  const bearer = /^Bearer +(\S+)$/i.exec(only.value)?.[1];
  if (bearer === undefined) throw new GatewayRefusal('bad_credential');
  return bearer.startsWith('mcp_')
    ? { type: 'key', key: bearer }
    : { type: 'token', token: bearer };
}

interface Place {
  readonly organization: string;
  readonly server: string;
}

export interface AdmitPorts {
  readonly admissions: AdmissionStore;
  readonly tokens: AccessTokens;
  readonly clock: Clock;
  readonly endpointUrl: (serverPath: string) => string;
  /** Absent where admissions are looked up too rarely to remember any. */
  readonly known?: KnownAdmissions;
}

/**
 * Admissions, by the object that the store found for them. A store returns the same object only as long as nothing has
 * been written since it read the object, so an admission is never used after the data that it was made from changed.
 */
export type KnownAdmissions = WeakMap<
  object,
  {
    readonly admission: Admission;
    /** The claims of the token, if there is one: another token could have other scopes and another expiry. */
    readonly claims?: AccessTokenClaims;
  }
>;

/** The data that calls share if they are answered in the same turn of the event loop. Nothing is written during the turn. */
export class Turn {
  /** The change token of the database, read after the calls arrived. */
  readonly asOf: string;
  /** By the proved credential. */
  #toCollections: Map<ProvedCredential, AdmittedToCollection> | undefined;

  constructor(asOf: string) {
    this.asOf = asOf;
  }

  /** Remembers an admission to a collection, because each call to a member needs it again. */
  admitted(admission: Admission): void {
    const { endpoint, proved } = admission;
    if (endpoint.target.upstream.kind !== 'collection' || this.#toCollections?.has(proved)) return;
    this.#toCollections ??= new Map();
    this.#toCollections.set(proved, { outer: admission, members: new Map() });
  }

  /** The admissions of a caller, found by their proved credential, if they were admitted to a collection in this turn. */
  toCollection(proved: ProvedCredential): AdmittedToCollection | undefined {
    return this.#toCollections?.get(proved);
  }
}

/** A caller of a collection, in one turn. */
interface AdmittedToCollection {
  readonly outer: Admission;
  /** The admissions to the members that were called, by the names of their servers. */
  readonly members: Map<string, Admission>;
}

/**
 * Checks the form of a key, or the signature of a token. Returns a promise only if signing keys have to be read first.
 *
 * @throws {GatewayRefusal} `bad_credential`
 */
export function prove(
  credential: PresentedCredential,
  { tokens }: Pick<AdmitPorts, 'tokens'>,
): Awaitable<ProvedCredential> {
  if (credential.type === 'key') {
    if (!isWellFormedSecret('mcp_', credential.key)) throw new GatewayRefusal('bad_credential');
    return { type: 'key', keyHash: hashSecret(credential.key) };
  }
  return whenReady(tokens.verify(credential.token), (verdict): ProvedCredential => {
    if (verdict.outcome === 'valid') return { type: 'token', claims: verdict.claims };
    throw new GatewayRefusal('bad_credential', { cause: verdict.reason });
  });
}

/** Runs `prove` and then `admitProved`, for a credential that was presented to this node. */
export function admit(
  credential: PresentedCredential,
  at: Place,
  ports: AdmitPorts,
): Awaitable<Admission> {
  return whenReady(prove(credential, ports), (proved) => admitProved(proved, at, ports));
}

/**
 * Admits a proved credential to its server, or refuses it with `bad_credential`, whatever the cause. Only the holder of
 * an otherwise valid credential learns that a setting suspends it. If the store cannot be asked, the result is
 * `unavailable`, never an unchecked yes. Pass `turn` only during the turn in which the request arrived.
 *
 * RFC 9068 §4, RFC 6750 §3.1
 *
 * @throws {GatewayRefusal} `bad_credential`, `suspended`, `unavailable`
 */
export function admitProved(
  proved: ProvedCredential,
  at: Place,
  ports: AdmitPorts,
  turn?: Turn,
): Awaitable<Admission> {
  const asOf = turn?.asOf;
  switch (proved.type) {
    case 'key':
      return admitKey(proved.keyHash, at, ports, asOf);
    case 'token':
      return admitToken(proved.claims, at, ports, asOf);
    case 'person':
      return admitPerson(proved.userId, at, ports);
    case 'member':
      return admitToMember(proved, at, ports, turn);
  }
}

/** The admission of a caller of a collection to one of its members. */
function admitToMember(
  proved: ProvedCredential & { readonly type: 'member' },
  at: Place,
  ports: AdmitPorts,
  turn: Turn | undefined,
): Awaitable<Admission> {
  const { organization, server } = at;
  const known = turn?.toCollection(proved.proved);
  if (known) {
    const { outer, members } = known;
    const member = members.get(server);
    if (member) return member;
    return whenReady(memberAdmission(outer, proved, at, ports, turn?.asOf), (admission) => {
      members.set(server, admission);
      return admission;
    });
  }
  const collection = { organization, server: proved.collection };
  const through = admitProved(proved.proved, collection, ports, turn);
  return whenReady(through, (outer) => memberAdmission(outer, proved, at, ports, turn?.asOf));
}

/** Admissions to members, by the caller's admission to the collection and the object that the store found for the member. */
const knownMembers = new WeakMap<Admission, WeakMap<object, Admission>>();

function memberAdmission(
  outer: Admission,
  proved: ProvedCredential,
  { organization, server }: Place,
  { admissions }: AdmitPorts,
  asOf: string | undefined,
): Awaitable<Admission> {
  const { endpoint: collection, credential, userId, scopes } = outer;
  const principal = `${outer.principal} via ${collection.id}`;
  const at = { organization, server, collectionId: collection.id, userId };
  const ask = (readAsOf?: string) => admissions.byMember({ ...at, asOf: readAsOf });
  return whenReady(asked(ask, asOf), (found): Admission => {
    const known = found && knownMembers.get(outer)?.get(found);
    if (known) return known;
    const most = admitted(found, { principal, credential, userId, cause: 'no member' });
    const admission: Admission = {
      ...outer,
      principal,
      scopes: scopes.filter((scope) => most.scopes.includes(scope)),
      endpoint: most.endpoint,
      rights: rightsOf(most),
      async now() {
        const [granted, member] = [await outer.now(), active(await ask())];
        if (!granted || !member) return undefined;
        const both = granted.scopes.filter((scope) => member.scopes.includes(scope));
        return { scopes: both, rights: rightsOf(member) };
      },
      access: {
        name: `${outer.access.name} via ${collection.id}`,
        isActive: async () => (await outer.access.isActive()) && active(await ask()) !== undefined,
      },
      proved,
    };
    const ofOuter = knownMembers.get(outer) ?? new WeakMap<object, Admission>();
    if (found) knownMembers.set(outer, ofOuter.set(found, admission));
    return admission;
  });
}

function admitKey(
  keyHash: string,
  { organization, server }: Place,
  { admissions, clock, known }: AdmitPorts,
  asOf: string | undefined,
): Awaitable<Admission> {
  const ask = (readAsOf?: string) =>
    admissions.byKey({ organization, server, keyHash, now: clock.now(), asOf: readAsOf });
  return whenReady(asked(ask, asOf), (found): Admission => {
    const remembered = found && known?.get(found);
    if (remembered) return remembered.admission;
    const { keyId, scopes, endpoint, toolCaller } = admitted(found, {
      principal: `key:${found?.keyId ?? ''}`,
      credential: { type: 'key', id: found?.keyId ?? '' },
    });
    const admission: Admission = {
      principal: `key:${keyId}`,
      credential: { type: 'key', id: keyId },
      scopes,
      endpoint,
      rights: rightsOf({ endpoint, toolCaller }),
      reference: keyId,
      ...whileAsked(`key ${keyId}`, ask),
      proved: { type: 'key', keyHash },
    };
    if (found) known?.set(found, { admission });
    return admission;
  });
}

function admitToken(
  claims: AccessTokenClaims,
  { organization, server }: Place,
  { admissions, clock, endpointUrl, known }: AdmitPorts,
  asOf: string | undefined,
): Awaitable<Admission> {
  const { id: tokenId, audience, clientId, grantId, subject, scopes, expiresAt } = claims;
  if (expiresAt <= clock.now()) throw new GatewayRefusal('bad_credential', { cause: 'expired' });
  if (audience !== endpointUrl(`${organization}/${server}`)) {
    throw new GatewayRefusal('bad_credential', { cause: 'for another server' });
  }
  const grant = grantId === undefined ? undefined : { id: grantId, userId: subject };
  const at = { organization, server, clientId, grant };
  const ask = (readAsOf?: string) => admissions.byClient({ ...at, tokenId, asOf: readAsOf });
  const askForAny = () => admissions.byClient(at);
  const principal = `client:${clientId}:${subject}`;
  const within = (most: AdmittedClient) => scopes.filter((scope) => most.scopes.includes(scope));
  return whenReady(asked(ask, asOf), (found): Admission => {
    const remembered = found && known?.get(found);
    if (remembered?.claims === claims) return remembered.admission;
    const credential = { type: 'client', id: clientId } as const;
    const userId = grantId === undefined ? undefined : subject;
    const most = admitted(found, { principal, credential, userId, cause: 'revoked' });
    const admission: Admission = {
      principal,
      credential,
      ...(grantId !== undefined && { grantId, userId: subject }),
      scopes: within(most),
      endpoint: most.endpoint,
      rights: rightsOf(most),
      reference: tokenId,
      async now() {
        const granted = expiresAt > clock.now() ? active(await ask()) : undefined;
        return granted && { scopes: within(granted), rights: rightsOf(granted) };
      },
      access: whileAsked(`client ${clientId} ${grantId ?? ''}`, askForAny).access,
      proved: { type: 'token', claims },
    };
    if (found) known?.set(found, { admission, claims });
    return admission;
  });
}

async function admitPerson(
  userId: string,
  { organization, server }: Place,
  { admissions }: AdmitPorts,
): Promise<Admission> {
  const ask = () => admissions.byPerson({ organization, server, userId });
  const principal = `user:${userId}`;
  const credential = { type: 'person', id: userId } as const;
  const found = admitted(await asked(ask), { principal, credential, userId, cause: 'no member' });
  return {
    principal,
    credential,
    userId,
    scopes: found.scopes,
    endpoint: found.endpoint,
    rights: rightsOf(found),
    reference: principal,
    ...whileAsked('person', ask),
    proved: { type: 'person', userId },
  };
}

/** Allows access for as long as `ask` finds something that no setting suspends. */
function whileAsked(
  name: string,
  ask: () => Awaitable<AdmittedClient | Suspended | undefined>,
): Pick<Admission, 'now' | 'access'> {
  const found = async () => active(await ask());
  const now = async () => {
    const most = await found();
    return most && { scopes: most.scopes, rights: rightsOf(most) };
  };
  return { now, access: { name, isActive: async () => (await found()) !== undefined } };
}

/** By the `toolCaller` that a store found. The store returns the same object until something is written. */
const knownRights = new WeakMap<object, ToolRights>();

function rightsOf({ endpoint, toolCaller }: Pick<AdmittedClient, 'endpoint' | 'toolCaller'>) {
  const known = knownRights.get(toolCaller);
  if (known?.isOf(endpoint.target)) return known;
  const rights = new ToolRights(endpoint.target, toolCaller);
  knownRights.set(toolCaller, rights);
  return rights;
}

/** Returns `found`, unless a setting suspends it. */
export function active<Found extends object>(
  found: Found | Suspended | undefined,
): Found | undefined {
  return found && !('suspension' in found) ? found : undefined;
}

/** The caller, if the credential is valid, and the cause to log if it is not. */
interface Suspendable extends Pick<SuspendedCall, 'principal' | 'credential' | 'userId'> {
  readonly cause?: string;
}

/** @throws {GatewayRefusal} `suspended`, or `bad_credential`, of which only the log learns the cause */
function admitted<Found extends object>(
  found: Found | Suspended | undefined,
  { principal, credential, userId, cause }: Suspendable,
): Found {
  if (!found) throw new GatewayRefusal('bad_credential', { cause });
  if (!('suspension' in found)) return found;
  const detail = suspended(found.suspension);
  const call = { by: found.suspension, endpoint: found.endpoint, principal, credential, userId };
  throw new GatewayRefusal('suspended', { detail, principal, suspended: call });
}

function asked<Answer>(
  ask: (asOf?: string) => Awaitable<Answer>,
  asOf?: string,
): Awaitable<Answer> {
  try {
    const answer = ask(asOf);
    return answer instanceof Promise ? answer.catch(unavailable) : answer;
  } catch (cause) {
    return unavailable(cause);
  }
}

function unavailable(cause: unknown): never {
  throw new GatewayRefusal('unavailable', { cause });
}
