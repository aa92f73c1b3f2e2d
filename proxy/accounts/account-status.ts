import type { EpochSeconds } from '#clock/clock';
import type { Connection } from '#config/connection';
import { isExpired } from '#token/token-record';
import type { TokenVault } from '#token/token-vault';

/** How a connection stands, without asking any server. */
export type AccountStatus = {
  name: string;
  url: string;
  source: string;
  /** `ready`: a credential is there, or can be fetched without a person. */
  state: 'ready' | 'signed_out';
  as: 'api_key' | 'client' | 'person';
  issuer?: string;
  scope?: string;
  expiresAt?: EpochSeconds;
  /** A new access token can be had without a person. */
  renewable: boolean;
};

export async function accountStatus(
  { name, url, source, credentials }: Connection,
  vault: TokenVault | undefined,
  now: EpochSeconds,
  /** Whether the keychain has the secrets that the configuration leaves to it. */
  complete = true,
): Promise<AccountStatus> {
  const what = { name, url, source };
  if (credentials.kind === 'api_key' || !vault)
    return { ...what, state: complete ? 'ready' : 'signed_out', as: 'api_key', renewable: false };
  const token = await vault.access();
  const refresh = token && (await vault.refresh(token.issuer));
  const client = credentials.kind === 'client_credentials';
  const renewable = client || refresh !== undefined;
  const good = token !== undefined && !isExpired(token, now);
  return {
    ...what,
    state: good || renewable ? 'ready' : 'signed_out',
    as: client ? 'client' : 'person',
    ...(token && { issuer: token.issuer }),
    ...(token?.scope !== undefined && { scope: token.scope }),
    ...(token?.expiresAt !== undefined && { expiresAt: token.expiresAt }),
    renewable,
  };
}
