import type { HttpClient } from '#transport/http-client';
import type { Discovery } from './discover.ts';
import { fetchJson } from './fetch-json.ts';

/**
 * The account that an access token is for, by the name that its person knows it by. `undefined` where the
 * authorization server does not tell; nobody is kept from signing in for want of it.
 *
 * OpenID Connect Core 1.0 §5.3
 */
export async function accountName(
  { userinfoEndpoint, within }: Discovery,
  accessToken: string,
  http: HttpClient,
): Promise<string | undefined> {
  if (userinfoEndpoint === undefined) return undefined;
  const answer = await fetchJson(http, {
    url: new URL(userinfoEndpoint),
    within,
    method: 'GET',
    headers: { accept: 'application/json', authorization: `Bearer ${accessToken}` },
  }).catch(() => undefined);
  if (answer?.status !== 200) return undefined;
  const { email, preferred_username: username } = answer.json ?? {};
  const name = [email, username].find((one) => typeof one === 'string' && one.trim() !== '');
  return typeof name === 'string' ? name.trim().slice(0, 200) : undefined;
}
