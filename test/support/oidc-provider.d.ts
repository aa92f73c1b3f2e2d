/** The part of oidc-provider that the tests use; the package brings no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http';
  import type { JWK } from 'jose';

  export const errors: {
    readonly InvalidTarget: new () => Error;
    readonly InvalidGrant: new (detail: string) => Error;
  };

  /** The context of a request to the token endpoint, when the client is authenticated. */
  export interface ProviderContext {
    readonly oidc: {
      readonly params: Readonly<Record<string, unknown>>;
      readonly client: { readonly clientId: string };
    };
    status: number;
    body: unknown;
  }

  export class Provider {
    constructor(
      issuer: string,
      configuration: {
        clients: {
          client_id: string;
          client_secret?: string;
          application_type?: 'native' | 'web';
          redirect_uris: string[];
          grant_types?: string[];
          response_types?: string[];
          token_endpoint_auth_method?: string;
          backchannel_logout_uri?: string;
          backchannel_logout_session_required?: boolean;
          require_auth_time?: boolean;
        }[];
        claims?: Record<string, string[]>;
        scopes?: string[];
        ttl?: Record<string, number>;
        features?: Record<string, object>;
        jwks?: { keys: JWK[] };
        /** More members of its metadata. */
        discovery?: Record<string, unknown>;
        issueRefreshToken?: () => boolean;
        /** Whether ID tokens leave out what userinfo answers. OpenID Connect Core §5.4 */
        conformIdTokenClaims?: boolean;
        pkce: { required: () => boolean };
        fetch?: (url: string, asked: RequestInit) => Promise<Response>;
        issueRefreshToken?: () => boolean;
        rotateRefreshToken?: boolean;
        /** `undefined` for an account that was removed. */
        findAccount: (
          context: unknown,
          sub: string,
        ) =>
          | {
              accountId: string;
              claims: (use: 'id_token' | 'userinfo') => Record<string, unknown>;
            }
          | undefined;
      },
    );
    readonly RefreshToken: {
      find(value: string): Promise<{ clientId: string; accountId: string } | undefined>;
    };
    registerGrantType(
      name: string,
      handler: (context: ProviderContext) => Promise<void>,
      parameters: readonly string[],
    ): void;
    callback(): RequestListener;
    use(
      middleware: (
        context: {
          readonly path: string;
          readonly method: string;
          readonly status: number;
          readonly oidc?: { readonly body?: Record<string, string> };
          readonly body?: unknown;
        },
        next: () => Promise<void>,
      ) => Promise<void>,
    ): void;
  }
}
