/** As much of oidc-provider, which brings no types, as our tests use. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http';

  export const errors: { readonly InvalidTarget: new () => Error };

  export class Provider {
    constructor(
      issuer: string,
      configuration: {
        clients: {
          client_id: string;
          client_secret: string;
          redirect_uris: string[];
          grant_types?: string[];
          response_types?: string[];
        }[];
        claims?: Record<string, string[]>;
        scopes?: string[];
        ttl?: Record<string, number>;
        features?: Record<string, object>;
        /** Whether ID tokens leave out what userinfo answers. OpenID Connect Core §5.4 */
        conformIdTokenClaims?: boolean;
        pkce: { required: () => boolean };
        findAccount: (
          context: unknown,
          sub: string,
        ) => {
          accountId: string;
          claims: (use: 'id_token' | 'userinfo') => Record<string, unknown>;
        };
      },
    );
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
