import { AccountRefusal, type AccountRefusalCode } from '#server/accounts/account-refusal';
import { AdministrationRefusal, type AdministrationRefusalCode } from '#server/admin/refusal';
import { errorAnswer } from '#server/gateway/errors';
import { GatewayRefusal, type RefusalCode } from '#server/gateway/gateway-refusal';
import { adminErrorAnswer, agentErrorAnswer, oauthErrorAnswer } from '#server/http/error-answers';
import { OAuthError, type OAuthErrorCode } from '#server/oauth/oauth-error';
import { TunnelRefusal, type TunnelRefusalCode } from '#server/upstreams/tunnel/agent-admission';
import { pageErrorAnswer } from '#server/web/page-errors';
import { layOutJson } from './normalize.ts';

/** Every code of a closed list: compiling fails if a code is missing or unknown. */
type All<Code extends string> = Record<Code, true>;

const gatewayCodes = {
  no_credential: true,
  bad_credential: true,
  suspended: true,
  two_credentials: true,
  insufficient_scope: true,
  foreign_origin: true,
  method_not_allowed: true,
  unsupported_media_type: true,
  not_acceptable: true,
  too_large: true,
  too_many_chunks: true,
  not_json: true,
  not_a_message: true,
  header_mismatch: true,
  unsupported_version: true,
  unknown_method: true,
  unknown_tool: true,
  hidden_tool: true,
  withheld_tool: true,
  closed_tool: true,
  unknown_prompt: true,
  closed_prompt: true,
  unknown_resource: true,
  closed_resource: true,
  bad_params: true,
  bad_meta: true,
  not_theirs: true,
  unknown_session: true,
  unknown_event: true,
  unexpected_response: true,
  cancelled: true,
  too_many_requests: true,
  too_slow: true,
  upstream_unreachable: true,
  upstream_unknown_host: true,
  upstream_not_public: true,
  upstream_tls_failed: true,
  upstream_not_served: true,
  upstream_timeout: true,
  upstream_broke_off: true,
  upstream_refused_credentials: true,
  upstream_not_found: true,
  upstream_method_not_allowed: true,
  upstream_redirected: true,
  upstream_rate_limited: true,
  upstream_busy: true,
  upstream_server_error: true,
  upstream_not_json: true,
  upstream_unreadable: true,
  upstream_too_large: true,
  unreadable_tools: true,
  unreadable_list: true,
  upstream_failed: true,
  agent_offline: true,
  node_unreachable: true,
  node_lost: true,
  not_connected: true,
  key_missing: true,
  key_refused: true,
  no_person: true,
  upstream_scope: true,
  upstream_token: true,
  unavailable: true,
  not_recorded: true,
  fault: true,
} as const satisfies All<RefusalCode>;

const oauthCodes = {
  invalid_request: true,
  invalid_client: true,
  invalid_grant: true,
  unauthorized_client: true,
  unsupported_grant_type: true,
  unsupported_response_type: true,
  access_denied: true,
  invalid_scope: true,
  invalid_target: true,
  invalid_redirect_uri: true,
  invalid_client_metadata: true,
  slow_down: true,
} as const satisfies All<OAuthErrorCode>;

const administrationCodes = {
  not_found: true,
  forbidden: true,
  invalid: true,
  conflict: true,
  proof_old: true,
  signed_out: true,
} as const satisfies All<AdministrationRefusalCode>;

const tunnelCodes = {
  no_upgrade: true,
  browser: true,
  bad_subprotocol: true,
  full: true,
} as const satisfies All<TunnelRefusalCode>;

const accountCodes = {
  busy: true,
  link_expired: true,
  set_up_expired: true,
  csrf_invalid: true,
  reauthentication_required: true,
  enrolled: true,
  second_factor: true,
  passkey_first: true,
  provider_first: true,
  sign_in_expired: true,
  not_found: true,
  passkey_invalid: true,
  identity_invalid: true,
  email_missing: true,
  email_unsaid: true,
  email_unverified: true,
  state_unknown: true,
  identity_taken: true,
  provider_unreachable: true,
  identity_unknown: true,
  single_sign_on: true,
  provider_unknown: true,
  member_unknown: true,
  deactivated: true,
} as const satisfies All<AccountRefusalCode>;

/** The answers to each code of each closed list: file name to text. */
export function errorWords(): Map<string, string> {
  const reason = 'the reason';
  return new Map([
    ['errors/gateway.txt', sections(gatewayCodes, gatewayWords)],
    [
      'errors/oauth.txt',
      sections(oauthCodes, (code) => oauthErrorAnswer(new OAuthError(code, reason))),
    ],
    [
      'errors/admin-api.txt',
      sections(administrationCodes, (code) => {
        const fields = code === 'invalid' ? [{ field: 'redirectUris', problem: 'is empty' }] : [];
        return adminErrorAnswer(new AdministrationRefusal(code, reason, { fields }));
      }),
    ],
    [
      'errors/agents.txt',
      sections(tunnelCodes, (code) => agentErrorAnswer(new TunnelRefusal(code))),
    ],
    [
      'errors/sign-in-pages.txt',
      sections(accountCodes, (code) => pageErrorAnswer(new AccountRefusal(code))),
    ],
    [
      'errors/dashboard-pages.txt',
      sections(administrationCodes, (code) =>
        pageErrorAnswer(new AdministrationRefusal(code, reason)),
      ),
    ],
  ]);
}

/** In both eras, as some statuses and codes differ. */
function gatewayWords(code: RefusalCode): object {
  const refusal = new GatewayRefusal(code, {
    detail: 'the detail',
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    requested: '2099-01-01',
    page: 'https://latchkey.example.com/dashboard/acme/servers/crm/account',
    showsUrls: false,
  });
  const request = {
    base: 'https://latchkey.example.com',
    serverPath: 'acme/library',
    id: '1',
  };
  const legacy = errorAnswer(refusal, { ...request, era: 'legacy' });
  const modern = errorAnswer(refusal, { ...request, era: 'modern' });
  return {
    ...legacy,
    ...(modern.status !== legacy.status && { modernStatus: modern.status }),
    ...(modern.errorCode !== legacy.errorCode && { modernCode: modern.errorCode }),
  };
}

function sections<Code extends string>(codes: All<Code>, words: (code: Code) => object): string {
  const parts: string[] = [];
  for (const code in codes) parts.push(`# ${code}\n${layOutJson(words(code))}\n`);
  return parts.join('\n');
}
