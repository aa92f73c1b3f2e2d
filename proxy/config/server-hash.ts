import { createHash } from 'node:crypto';

/** What distinguishes two connections for mcp-remote. */
export type RemoteIdentity = {
  url: string;
  resource?: string | undefined;
  headers?: Readonly<Record<string, string>>;
  authorizeParams?: Readonly<Record<string, string>>;
  clientMetadataUrl?: string | undefined;
};

/** The name that mcp-remote 0.15 gives a connection in its files. */
export function serverHash(identity: RemoteIdentity): string {
  const { url, resource, headers = {}, authorizeParams = {}, clientMetadataUrl } = identity;
  const sorted = (values: Readonly<Record<string, string>>) => {
    const keys = Object.keys(values).sort();
    return keys.length > 0 ? [JSON.stringify(values, keys)] : [];
  };
  const parts = [
    url,
    ...(resource ? [resource] : []),
    ...sorted(authorizeParams),
    ...sorted(headers),
    ...(clientMetadataUrl === undefined ? [] : [clientMetadataUrl]),
  ];
  return createHash('md5').update(parts.join('|')).digest('hex');
}

/** The port that its redirect URI has unless another was given. */
export function derivedPort(hash: string): number {
  return 3335 + (Number.parseInt(hash.slice(0, 4), 16) % 45_816);
}
