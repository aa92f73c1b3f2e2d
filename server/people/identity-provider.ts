/** Who somebody is, as an upstream OpenID provider vouches for it. */
export interface UpstreamIdentity {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  readonly isEmailVerified: boolean;
  /** The groups it says they are in, by its names. */
  readonly groups: readonly string[];
}

/** What ties an answer to the question; derived under a key of this server, so stored nowhere. */
export interface SignInChecks {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** An upstream OpenID provider: authorization code with PKCE, state and nonce. OpenID Connect Core §3.1 */
export interface IdentityProvider {
  /** What people call it. */
  readonly name: string;
  readonly issuer: string;

  /** Where to send the browser. Rejects when the provider cannot be reached. */
  begin(checks: SignInChecks): Promise<URL>;

  /** Who came back by `callback`, the whole URL. Rejects unless everything about the answer is right. */
  finish(callback: URL, checks: SignInChecks): Promise<UpstreamIdentity>;
}
