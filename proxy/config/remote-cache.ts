import { readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** A sign-in that mcp-remote keeps in plain files. */
export type RemoteSignIn = {
  accessToken: string;
  refreshToken: string;
  scope?: string;
  /** Seconds since 1970. */
  expiresAt?: number;
  /** Whom both tokens and client are from. */
  issuer: string;
  clientId: string;
  /** Of a client that registered itself. */
  client?: { clientSecret?: string; redirectUri: string; authMethod?: string };
  /** The files that it stands in. */
  files: string[];
};

/**
 * The sign-in that mcp-remote has for the connection `hash`, in the folder of its present layout or else
 * of its older releases, one each. `undefined` when there is none, or when it is not certain from which
 * issuer, or to which client, the refresh token was given.
 */
export async function remoteSignIn(
  hash: string,
  staticClientId: string | undefined,
  folder: string,
): Promise<RemoteSignIn | undefined> {
  const names = await readdir(folder).catch((): string[] => []);
  const layouts = names.filter((name) => name.startsWith('mcp-remote-')).sort(newestFirst);
  for (const layout of layouts) {
    const tokensFile = join(folder, layout, `${hash}_tokens.json`);
    const clientFile = join(folder, layout, `${hash}_client_info.json`);
    const tokens = await json(tokensFile);
    if (!tokens) continue;
    const { access_token: accessToken, refresh_token: refreshToken, issuer } = tokens;
    if (!isText(accessToken) || !isText(refreshToken) || !isText(issuer)) return undefined;
    const expiresAt = Number(tokens['expires_at']);
    const common = {
      accessToken,
      refreshToken,
      issuer,
      ...(isText(tokens['scope']) && { scope: tokens['scope'] }),
      ...(expiresAt > 0 && { expiresAt: Math.floor(expiresAt / 1000) }),
    };
    if (staticClientId !== undefined)
      return { ...common, clientId: staticClientId, files: [tokensFile] };
    const client = await json(clientFile);
    const { client_id: clientId, client_secret: clientSecret, redirect_uris: uris } = client ?? {};
    const redirectUri: unknown = Array.isArray(uris) ? uris[0] : undefined;
    if (!isText(clientId) || !isText(redirectUri) || client?.['issuer'] !== issuer)
      return undefined;
    const authMethod = client['token_endpoint_auth_method'];
    return {
      ...common,
      clientId,
      client: {
        redirectUri,
        ...(isText(clientSecret) && { clientSecret }),
        ...(isText(authMethod) && { authMethod }),
      },
      files: [tokensFile, clientFile],
    };
  }
  return undefined;
}

/** Takes the sign-in away from where it stood in the open. */
export async function dropRemoteSignIn({ files }: RemoteSignIn): Promise<void> {
  for (const file of files) await rm(file, { force: true });
}

/** `mcp-remote-v1` is the present layout; before it there was one for each release. */
function newestFirst(one: string, other: string): number {
  const layout = (name: string) => (name.startsWith('mcp-remote-v') ? 1 : 0);
  return layout(other) - layout(one) || other.localeCompare(one, 'en', { numeric: true });
}

async function json(path: string): Promise<Record<string, unknown> | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
