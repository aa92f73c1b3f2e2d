import type { OAuthClient } from '#credentials/oauth-client';
import type { Scope } from '#credentials/scope';
import { parseServerPath } from '#organizations/slug';
import { errorAnswer, type AnswerTarget, type ErrorAnswer } from './answer-url.ts';
import { parseAuthorizationQuery, type AuthorizationQuery } from './authorization-query.ts';
import type { FindClient } from './find-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { withoutOpenIdScopes } from './openid-scopes.ts';
import { ownClientDocument } from './own-client-document.ts';
import { matchesRedirectUri } from './redirect-match.ts';
import { requestedScopes } from './requested-scopes.ts';

const s256Challenge = /^[\w-]{43}$/;

/** What a client asks of a person, everything in it checked. */
export interface AuthorizationRequest extends AnswerTarget {
  /** `{organization}/{server}`; whether it exists is not said before we know who asks. */
  readonly serverPath: string;
  readonly scopes: readonly Scope[];
  readonly codeChallenge: string;
}

export type AuthorizationOutcome =
  /** Neither client nor redirect URI can be trusted: a page of our own. */
  | { readonly outcome: 'page'; readonly refusal: OAuthRefusal }
  /** Nothing more is done for a client that anybody can make up until somebody has signed in. */
  | { readonly outcome: 'sign-in' }
  /** Everything else that is wrong with the request. */
  | ErrorAnswer
  | { readonly outcome: 'request'; readonly request: AuthorizationRequest };

export interface AuthorizationRequestPorts {
  readonly base: string;
  readonly findClient: FindClient;
}

/**
 * Checks an authorization request: first whom an answer may be sent to, on whose failure nothing is
 * redirected, then everything that the client can be told.
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
    if (clientId === undefined) throw new OAuthRefusal('invalid_request', 'client_id is missing');
    const client = await ports.findClient(clientId, { userId });
    if (client === 'sign-in') return { outcome: 'sign-in' };
    const redirectUri = checkedRedirectUri(asked, client);
    if (client.serverId === undefined && userId === undefined) return { outcome: 'sign-in' };
    target = answerTarget(client, redirectUri, asked, ports.base);
    const question = checked(asked, client, ports.base);
    return { outcome: 'request', request: { ...target, ...question } };
  } catch (refusal) {
    if (!(refusal instanceof OAuthRefusal)) throw refusal;
    if (!target) return { outcome: 'page', refusal };
    return errorAnswer(target, refusal, ports.base);
  }
}

function checkedRedirectUri({ parameters }: AuthorizationQuery, client: OAuthClient): string {
  const redirectUri = parameters.get('redirect_uri');
  if (redirectUri === undefined) {
    throw new OAuthRefusal('invalid_request', 'redirect_uri is missing');
  }
  const known = client.redirectUris.some((uri) => matchesRedirectUri(redirectUri, uri));
  if (known) return redirectUri;
  throw new OAuthRefusal('invalid_request', 'redirect_uri is not one that the client registered');
}

function answerTarget(
  { id, name, serverId }: OAuthClient,
  redirectUri: string,
  { parameters }: AuthorizationQuery,
  base: string,
): AnswerTarget {
  // Our own document belongs to no server either, and what it says is ours.
  const isSelfRegistered = serverId === undefined && id !== ownClientDocument(base).client_id;
  const state = parameters.get('state');
  return { clientId: id, clientName: name, isSelfRegistered, redirectUri, state };
}

function checked(
  { parameters, resources }: AuthorizationQuery,
  client: OAuthClient,
  base: string,
): Omit<AuthorizationRequest, keyof AnswerTarget> {
  const refuse = (...words: ConstructorParameters<typeof OAuthRefusal>) => {
    throw new OAuthRefusal(...words);
  };
  const responseType = parameters.get('response_type');
  if (responseType === undefined) refuse('invalid_request', 'response_type is missing');
  if (responseType !== 'code') refuse('unsupported_response_type', 'response_type must be code');
  if ((parameters.get('response_mode') ?? 'query') !== 'query') {
    refuse('invalid_request', 'response_mode must be query');
  }
  const codeChallenge = parameters.get('code_challenge');
  if (codeChallenge === undefined) throw new OAuthRefusal('invalid_request', 'PKCE is required');
  if (parameters.get('code_challenge_method') !== 'S256') {
    refuse('invalid_request', 'code_challenge_method must be S256');
  }
  if (!s256Challenge.test(codeChallenge)) {
    refuse('invalid_request', 'code_challenge must be 43 characters of base64url');
  }
  const scopes = requestedScopes(withoutOpenIdScopes(parameters.get('scope')), client.scopes);
  const serverPath = requestedServer(resources, client, base);
  return { serverPath, scopes, codeChallenge };
}

/** The server that the tokens are to be for. RFC 8707 §2 */
function requestedServer(
  resources: readonly string[],
  { serverPath }: OAuthClient,
  base: string,
): string {
  const [resource, ...others] = resources;
  if (others.length > 0) throw new OAuthRefusal('invalid_target', 'one resource at a time');
  if (serverPath !== undefined) {
    const own = `${base}/mcp/${serverPath}`;
    if (resource === undefined || resource === own) return serverPath;
    throw new OAuthRefusal('invalid_target', `this client is for ${own}`);
  }
  if (resource === undefined) throw new OAuthRefusal('invalid_target', 'resource is missing');
  const start = `${base}/mcp/`;
  const path = resource.startsWith(start) ? resource.slice(start.length) : '';
  if (parseServerPath(path)) return path;
  throw new OAuthRefusal('invalid_target', `resource must be ${start}ORGANIZATION/SERVER`);
}
