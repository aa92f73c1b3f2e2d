import { OAuthRefusal } from './oauth-refusal.ts';
import { decode } from './form.ts';

const maxQueryLength = 16_384;
const maxStateBytes = 4096;

/** What the authorization endpoint was asked, each parameter once. One without a value is absent. */
export interface AuthorizationQuery {
  readonly parameters: ReadonlyMap<string, string>;
  /** The different values of `resource`, which alone may be repeated. RFC 8707 §2 */
  readonly resources: readonly string[];
}

/**
 * Reads the query of an authorization request strictly: one that two programs could read differently
 * is not redirected anywhere.
 *
 * RFC 6749 §3.1
 *
 * @throws {OAuthRefusal} `invalid_request`
 */
export function parseAuthorizationQuery(query: string): AuthorizationQuery {
  const refused = (why: string) => new OAuthRefusal('invalid_request', why);
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
