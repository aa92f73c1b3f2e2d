import type { TokenSource } from '#auth/token-source';

type Headers = Record<string, string>;

/** How requests prove who is asking. */
export interface Credential {
  headers(): Promise<Headers>;

  /**
   * Other headers, after the server refused `refused` with 401; `undefined` when there are none to
   * be had.
   */
  renewed(refused: Headers, challenge: string | undefined): Promise<Headers | undefined>;

  /** The same after 403 for lack of a scope that `challenge` names. RFC 6750 §3.1 */
  widened(narrow: Headers, challenge: string): Promise<Headers | undefined>;
}

/** A key in `X-API-Key`, or nothing at all: what is refused once stays refused. */
export function staticCredential(headers: Headers): Credential {
  return {
    headers: () => Promise.resolve(headers),
    renewed: () => Promise.resolve(undefined),
    widened: () => Promise.resolve(undefined),
  };
}

/**
 * A key that stands elsewhere, too: once it is refused, it is read again, as somebody may have replaced
 * it since.
 */
export function rereadCredential(first: Headers, reread: () => Promise<Headers>): Credential {
  let current = first;
  return {
    headers: () => Promise.resolve(current),
    async renewed(refused) {
      current = await reread();
      return Object.entries(current).every(([name, value]) => refused[name] === value)
        ? undefined
        : current;
    },
    widened: () => Promise.resolve(undefined),
  };
}

const bearer = 'Bearer ';

/**
 * RFC 6750 §2.1. Where no token is `expected`, as nobody has ever signed in, the server is first asked
 * without one: it may want none, and the keychain is left alone.
 */
export function bearerCredential(
  tokens: TokenSource,
  expected: () => boolean = () => true,
): Credential {
  const header = (accessToken: string) => ({ authorization: `${bearer}${accessToken}` });
  let challenged = false;
  return {
    headers: async () => (challenged || expected() ? header(await tokens.accessToken()) : {}),
    async renewed({ authorization }, challenge) {
      const renewed = await tokens.accessToken({
        ...(authorization !== undefined && { accessToken: authorization.slice(bearer.length) }),
        ...(challenge !== undefined && { challenge }),
      });
      challenged = true;
      return header(renewed);
    },
    async widened({ authorization }, challenge) {
      if (authorization === undefined) return undefined;
      const accessToken = await tokens.widened({
        accessToken: authorization.slice(bearer.length),
        challenge,
      });
      return accessToken === undefined ? undefined : header(accessToken);
    },
  };
}

/** The same, with `headers` on every request besides; the credential's own win. */
export function withHeaders(credential: Credential, headers: Headers): Credential {
  const also = async (proof: Promise<Headers | undefined>) => {
    const own = await proof;
    return own && { ...headers, ...own };
  };
  return {
    headers: async () => ({ ...headers, ...(await credential.headers()) }),
    renewed: (refused, challenge) => also(credential.renewed(refused, challenge)),
    widened: (narrow, challenge) => also(credential.widened(narrow, challenge)),
  };
}
