import type { OAuthClient } from '#db/clients';
import { parseServerPath } from '#model/slug';
import { ownClientDocument, type ResolveClient } from './client-documents.ts';
import { decode } from './forms.ts';
import { OAuthError } from './oauth-error.ts';
import { matchesRedirectUri } from './redirect-uris.ts';
import { requestedScopes } from './permitted-scopes.ts';
import {
  mostResources,
  type AnswerTarget,
  type AuthorizationRequest,
  type ClaimedDevice,
  type BundleRequest,
} from '#model/authorization-request';
import { serverListUrl } from '#model/server-list';
import { withoutOpenIdScopes, withoutUnobtainableScopes } from '#model/scopes';

const s256Challenge = /^[\w-]{43}$/;

export type AuthorizationOutcome =
  /** The client or the redirect URI is not trusted, so the error is shown on a page of this server. */
  | { readonly outcome: 'page'; readonly refusal: OAuthError }
  /** The client registered or described itself, and nothing more is done for it until a person has signed in. */
  | { readonly outcome: 'sign-in' }
  /** Everything else that is wrong with the request. */
  | ErrorAnswer
  | { readonly outcome: 'request'; readonly request: AuthorizationRequest }
  /** For several servers, or for those that the person chooses. */
  | { readonly outcome: 'bundle'; readonly request: BundleRequest };

export interface AuthorizationRequestPorts {
  readonly base: string;
  readonly resolveClient: ResolveClient;
}

/**
 * Validates an authorization request. Client and redirect URI come first: if they are wrong, the browser is not
 * redirected. All later errors go to the client.
 *
 * RFC 6749 §4.1.1, RFC 7636 §4.4.1, RFC 8707 §2, RFC 9700 §4.1
 */
export async function authorizationRequest(
  query: string,
  { userId }: { userId: string | undefined },
  ports: AuthorizationRequestPorts,
): Promise<AuthorizationOutcome> {
  let target: AnswerTarget | undefined;
  try {
    const asked = parseAuthorizationQuery(query);
    const clientId = asked.parameters.get('client_id');
    if (clientId === undefined) throw new OAuthError('invalid_request', 'client_id is missing');
    const client = await ports.resolveClient(clientId, { userId });
    if (client === 'sign-in') return { outcome: 'sign-in' };
    const redirectUri = checkedRedirectUri(asked, client);
    if (client.serverId === undefined && userId === undefined) return { outcome: 'sign-in' };
    target = answerTarget(client, redirectUri, asked, ports.base);
    const { resource, ...question } = checked(asked, client, ports.base);
    return 'serverPath' in resource
      ? { outcome: 'request', request: { ...target, ...resource, ...question } }
      : { outcome: 'bundle', request: { ...target, ...resource, ...question } };
  } catch (refusal) {
    if (!(refusal instanceof OAuthError)) throw refusal;
    if (!target) return { outcome: 'page', refusal };
    return errorAnswer(target, refusal, ports.base);
  }
}

function checkedRedirectUri({ parameters }: AuthorizationQuery, client: OAuthClient): string {
  const redirectUri = parameters.get('redirect_uri');
  if (redirectUri === undefined) {
    throw new OAuthError('invalid_request', 'redirect_uri is missing');
  }
  const known = client.redirectUris.some((uri) => matchesRedirectUri(redirectUri, uri));
  if (known) return redirectUri;
  throw new OAuthError('invalid_request', 'redirect_uri is not registered for the client');
}

function answerTarget(
  { id, name, serverId }: OAuthClient,
  redirectUri: string,
  { parameters }: AuthorizationQuery,
  base: string,
): AnswerTarget {
  // The document of our own proxy belongs to no server either, but it is trusted.
  const isSelfRegistered = serverId === undefined && id !== ownClientDocument(base).client_id;
  const state = parameters.get('state');
  return { clientId: id, clientName: name, isSelfRegistered, redirectUri, state };
}

type RequestedResource =
  | Pick<AuthorizationRequest, 'serverPath'>
  | Pick<BundleRequest, 'serverPaths' | 'listsServers'>;

function checked(
  { parameters, resources }: AuthorizationQuery,
  client: OAuthClient,
  base: string,
): Omit<AuthorizationRequest, keyof AnswerTarget | 'serverPath'> & {
  readonly resource: RequestedResource;
} {
  const refuse = (...words: ConstructorParameters<typeof OAuthError>) => {
    throw new OAuthError(...words);
  };
  const responseType = parameters.get('response_type');
  if (responseType === undefined) refuse('invalid_request', 'response_type is missing');
  if (responseType !== 'code') refuse('unsupported_response_type', 'response_type must be code');
  if ((parameters.get('response_mode') ?? 'query') !== 'query') {
    refuse('invalid_request', 'response_mode must be query');
  }
  const codeChallenge = parameters.get('code_challenge');
  if (codeChallenge === undefined) throw new OAuthError('invalid_request', 'PKCE is required');
  if (parameters.get('code_challenge_method') !== 'S256') {
    refuse('invalid_request', 'code_challenge_method must be S256');
  }
  if (!s256Challenge.test(codeChallenge)) {
    refuse('invalid_request', 'code_challenge must be 43 characters of base64url');
  }
  const asked = withoutOpenIdScopes(parameters.get('scope'));
  const scopes = requestedScopes(
    client.serverId === undefined ? withoutUnobtainableScopes(asked, client.scopes) : asked,
    client.scopes,
  );
  const resource =
    client.serverId === undefined && isBundle(resources, base)
      ? requestedServers(resources, base)
      : { serverPath: requestedServer(resources, client, base) };
  return {
    resource,
    scopes,
    codeChallenge,
    assistant: claimedAssistant(parameters, client, base),
    device: claimedDevice(parameters, client, base),
  };
}

const longestAssistant = 100;

/** `assistant`, a parameter of our own that only our proxy sends. For any other client it is ignored. RFC 6749 §3.1 */
function claimedAssistant(
  parameters: AuthorizationQuery['parameters'],
  { id }: OAuthClient,
  base: string,
): string | undefined {
  const claimed = parameters.get('assistant')?.trim() ?? '';
  const isOurs = id === ownClientDocument(base).client_id;
  return isOurs && claimed !== '' && claimed.length <= longestAssistant ? claimed : undefined;
}

const longestDeviceName = 100;
const longestSystem = 40;
const deviceId = /^[A-Za-z0-9_-]{22}$/;

/**
 * `device_id`, `device_name` and `device_system`: the computer that our proxy runs on. Like `assistant`, they are parameters of our own;
 * token requests with an assertion can have them, too. Malformed or too long values are ignored.
 */
export function claimedDevice(
  parameters: AuthorizationQuery['parameters'],
  { id: clientId }: OAuthClient,
  base: string,
): ClaimedDevice | undefined {
  const id = parameters.get('device_id') ?? '';
  const name = parameters.get('device_name')?.trim() ?? '';
  const system = parameters.get('device_system')?.trim() ?? '';
  if (clientId !== ownClientDocument(base).client_id || !deviceId.test(id)) return undefined;
  if (name === '' || name.length > longestDeviceName || system.length > longestSystem) {
    return undefined;
  }
  return { id, name, system };
}

/** The server that the tokens are for. RFC 8707 §2 */
function requestedServer(
  resources: readonly string[],
  { serverPath }: OAuthClient,
  base: string,
): string {
  const [resource, ...others] = resources;
  if (others.length > 0) throw new OAuthError('invalid_target', 'request exactly one resource');
  if (serverPath !== undefined) {
    const own = `${base}/mcp/${serverPath}`;
    if (resource === undefined || resource === own) return serverPath;
    throw new OAuthError('invalid_target', `this client is for ${own}`);
  }
  if (resource === undefined) throw new OAuthError('invalid_target', 'resource is missing');
  return serverPathOf(resource, base);
}

function serverPathOf(resource: string, base: string): string {
  const start = `${base}/mcp/`;
  const path = resource.startsWith(start) ? resource.slice(start.length) : '';
  if (parseServerPath(path)) return path;
  throw new OAuthError('invalid_target', `resource must be ${start}ORGANIZATION/SERVER`);
}

/** Whether a request is for more than one server, or for those that the person chooses. */
function isBundle(resources: readonly string[], base: string): boolean {
  return resources.length > 1 || resources.includes(serverListUrl(base));
}

/** The servers that a client names, and whether it asks for the list of all that the person may use. RFC 8707 §2 */
function requestedServers(
  resources: readonly string[],
  base: string,
): Pick<BundleRequest, 'serverPaths' | 'listsServers'> {
  const list = serverListUrl(base);
  const named = resources.filter((resource) => resource !== list);
  if (named.length > mostResources) {
    throw new OAuthError('invalid_target', `request at most ${mostResources} servers`);
  }
  const serverPaths = named.map((resource) => serverPathOf(resource, base));
  return { serverPaths, listsServers: resources.includes(list) };
}

const maxQueryLength = 16_384;
const maxStateBytes = 4096;

/** The parameters of an authorization request, each at most once. A parameter without a value is absent. */
export interface AuthorizationQuery {
  readonly parameters: ReadonlyMap<string, string>;
  /** The distinct values of `resource`, the only parameter that may be repeated. RFC 8707 §2 */
  readonly resources: readonly string[];
}

/**
 * Parses the query of an authorization request strictly: if two parsers could disagree about it, the browser is not
 * redirected.
 *
 * RFC 6749 §3.1
 *
 * @throws {OAuthError} `invalid_request`
 */
function parseAuthorizationQuery(query: string): AuthorizationQuery {
  const refused = (why: string) => new OAuthError('invalid_request', why);
  if (query.length > maxQueryLength) throw refused('the request is too long');
  const parameters = new Map<string, string>();
  const resources = new Set<string>();
  const seen = new Set<string>();
  for (const pair of query.split('&').filter(Boolean)) {
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1));
    if (name === 'resource') {
      if (value !== '') resources.add(value);
      continue;
    }
    if (seen.has(name)) throw refused('a parameter is repeated');
    seen.add(name);
    if (value !== '') parameters.set(name, value);
  }
  if (Buffer.byteLength(parameters.get('state') ?? '') > maxStateBytes) {
    throw refused(`state is longer than ${maxStateBytes} bytes`);
  }
  return { parameters, resources: [...resources] };
}

/** The redirect URI with the answer appended to any query that it has. RFC 6749 §4.1.2, RFC 9207 §2 */
export function answerUrl(
  { redirectUri, state }: Pick<AnswerTarget, 'redirectUri' | 'state'>,
  answer: Readonly<Record<string, string>>,
  issuer: string,
): string {
  const query = new URLSearchParams(answer);
  if (state !== undefined) query.set('state', state);
  query.set('iss', issuer);
  return `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query.toString()}`;
}

/** The redirect URI with an error appended. RFC 6749 §4.1.2.1 */
export function errorUrl(
  target: AnswerTarget,
  { code, message }: OAuthError,
  issuer: string,
): string {
  return answerUrl(target, { error: code, error_description: message }, issuer);
}

/** How an error reaches the client when the person had no say in it. */
export type ErrorAnswer =
  | { readonly outcome: 'redirect'; readonly location: string }
  /** A page explains the error, and the person decides whether to go on to `location`. */
  | {
      readonly outcome: 'refused';
      readonly refusal: OAuthError;
      readonly target: AnswerTarget;
      readonly location: string;
    };

/**
 * Redirects only to clients that an administrator created. Any other redirect URI may be a malicious site, and the
 * link to it would start with the address of this server.
 *
 * RFC 9700 §4.11.2
 */
export function errorAnswer(
  target: AnswerTarget,
  refusal: OAuthError,
  issuer: string,
): ErrorAnswer {
  const location = errorUrl(target, refusal, issuer);
  if (!target.isSelfRegistered) return { outcome: 'redirect', location };
  return { outcome: 'refused', refusal, target, location };
}
