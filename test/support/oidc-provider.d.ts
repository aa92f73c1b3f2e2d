/** As much of oidc-provider, which brings no types, as our tests use. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http';

  export class Provider {
    constructor(
      issuer: string,
      configuration: {
        clients: { client_id: string; client_secret: string; redirect_uris: string[] }[];
        claims: Record<string, string[]>;
        pkce: { required: () => boolean };
        findAccount: (
          context: unknown,
          sub: string,
        ) => { accountId: string; claims: () => Record<string, unknown> };
      },
    );
    callback(): RequestListener;
  }
}
