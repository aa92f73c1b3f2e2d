import { z } from 'zod';

/** The members of authorization server metadata that we use. RFC 8414 §2, RFC 9207 §3, RFC 9126 §5, RFC 7591, OpenID Connect Discovery §3 */
export const serverMetadataSchema = z.object({
  issuer: z.string(),
  authorization_endpoint: z.string().optional(),
  token_endpoint: z.string(),
  pushed_authorization_request_endpoint: z.string().optional(),
  require_pushed_authorization_requests: z.boolean().optional(),
  revocation_endpoint: z.string().optional(),
  registration_endpoint: z.string().optional(),
  client_id_metadata_document_supported: z.boolean().optional(),
  jwks_uri: z.string().optional(),
  scopes_supported: z.array(z.string()).optional(),
  code_challenge_methods_supported: z.array(z.string()).optional(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
  id_token_signing_alg_values_supported: z.array(z.string()).optional(),
  authorization_response_iss_parameter_supported: z.boolean().optional(),
});

export type ServerMetadata = z.infer<typeof serverMetadataSchema>;

/** The metadata of an upstream's authorization server, and the upstream's resource identifier. */
export interface Discovered {
  readonly metadata: ServerMetadata;
  /** The upstream's resource identifier. RFC 9728 §2 */
  readonly resource: string;
}
