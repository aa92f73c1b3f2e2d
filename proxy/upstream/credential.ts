import type { TokenSource } from '#token/token-source';

type Headers = Record<string, string>;

/** How requests prove who is asking. */
export interface Credential {
  headers(): Promise<Headers>;

  /**
   * Other headers, after the server refused `refused` with 401; `undefined` when there are none to
   * be had.
   */
  renewed(refused: Headers, challenge: string | undefined): Promise<Headers | undefined>;
}

/** A key in `X-API-Key`, or nothing at all: what is refused once stays refused. */
export function staticCredential(headers: Headers): Credential {
  return { headers: () => Promise.resolve(headers), renewed: () => Promise.resolve(undefined) };
}

/** RFC 6750 §2.1 */
export function bearerCredential(tokens: TokenSource): Credential {
  const header = (accessToken: string) => ({ authorization: `Bearer ${accessToken}` });
  return {
    headers: async () => header(await tokens.accessToken()),
    renewed: async ({ authorization = '' }, challenge) =>
      header(
        await tokens.accessToken({
          accessToken: authorization.slice('Bearer '.length),
          ...(challenge !== undefined && { challenge }),
        }),
      ),
  };
}
