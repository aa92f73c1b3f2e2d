import type { OAuthClient } from '#db/clients';
import type { Awaitable } from '#model/awaitable';
import { readAssertion } from './assertions.ts';
import {
  type AssertionPorts,
  identityAssertionGrant,
  identityAssertionType,
} from './identity-assertion-grant.ts';
import { OAuthError } from './oauth-error.ts';
import type { GrantContext, Issued, TokenRequest } from './token-response.ts';
import { workloadGrant } from './workload-grant.ts';

/**
 * Exchanges a JWT of another issuer for an access token. Its type decides what it is: an identity assertion is about a person, any
 * other token about a workload.
 *
 * RFC 7523 §2.1
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`, `unauthorized_client`, `invalid_grant`, `invalid_scope`
 */
export function jwtBearerGrant(
  request: TokenRequest,
  ports: GrantContext & AssertionPorts,
): Awaitable<Issued & { readonly client: OAuthClient }> {
  const text = request.form.get('assertion');
  if (text === undefined) throw new OAuthError('invalid_request', 'assertion is missing');
  const assertion = readAssertion(text);
  return assertion.typ === identityAssertionType
    ? identityAssertionGrant(request, assertion, ports)
    : workloadGrant(request, assertion, ports);
}
