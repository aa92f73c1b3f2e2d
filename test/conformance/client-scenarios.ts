export const revisions = ['2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof revisions)[number];

/** The client scenarios, with the revision each was introduced in. */
const introduced: Record<string, Revision | 'extension'> = {
  tools_call: '2025-11-25',
  'json-schema-2020-12-preservation': '2025-11-25',
  'request-metadata': '2026-07-28',
  'sep-2322-client-request-state': '2026-07-28',
  'http-standard-headers': '2026-07-28',
  'http-custom-headers': '2026-07-28',
  'http-invalid-tool-headers': '2026-07-28',
  'json-schema-ref-no-deref': '2026-07-28',
  'auth/metadata-default': '2025-11-25',
  'auth/metadata-var1': '2025-11-25',
  'auth/metadata-var2': '2025-11-25',
  'auth/metadata-var3': '2025-11-25',
  'auth/basic-cimd': '2025-11-25',
  'auth/scope-from-www-authenticate': '2025-11-25',
  'auth/scope-from-scopes-supported': '2025-11-25',
  'auth/scope-omitted-when-undefined': '2025-11-25',
  'auth/scope-step-up': '2025-11-25',
  'auth/scope-retry-limit': '2025-11-25',
  'auth/token-endpoint-auth-basic': '2025-11-25',
  'auth/token-endpoint-auth-post': '2025-11-25',
  'auth/token-endpoint-auth-none': '2025-11-25',
  'auth/pre-registration': '2025-11-25',
  'auth/resource-mismatch': '2026-07-28',
  'auth/offline-access-scope': '2026-07-28',
  'auth/offline-access-not-supported': '2026-07-28',
  'auth/authorization-server-migration': '2026-07-28',
  'auth/iss-supported': '2026-07-28',
  'auth/iss-not-advertised': '2026-07-28',
  'auth/iss-supported-missing': '2026-07-28',
  'auth/iss-wrong-issuer': '2026-07-28',
  'auth/iss-unexpected': '2026-07-28',
  'auth/iss-normalized': '2026-07-28',
  'auth/metadata-issuer-mismatch': '2026-07-28',
  'auth/client-credentials-jwt': 'extension',
  'auth/client-credentials-basic': 'extension',
  'auth/enterprise-managed-authorization': 'extension',
  'auth/wif-jwt-bearer': 'extension',
};

/** The scenarios of the older era alone. */
const ended = ['initialize', 'elicitation-sep1034-client-defaults', 'sse-retry'];

/** The scenarios to run for `revision`; extensions belong to every revision. */
export function clientScenarios(revision: Revision): string[] {
  const begun = Object.entries(introduced)
    .filter(([, since]) => since === 'extension' || since <= revision)
    .map(([name]) => name);
  return revision === '2025-11-25' ? [...ended, ...begun] : begun;
}
