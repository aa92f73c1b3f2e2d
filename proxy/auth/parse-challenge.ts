/** What a resource asks for with a 401 or 403. RFC 6750 §3, RFC 9728 §5.1 */
export type Challenge = {
  resourceMetadata?: string;
  scope?: string;
  error?: string;
};

const parameter = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi;

/** The Bearer challenge of a `WWW-Authenticate` header, which may hold other schemes besides. */
export function parseChallenge(header: string | undefined): Challenge {
  const [, bearer] = /(?:^|[\s,])bearer\s+(.*)$/is.exec(header ?? '') ?? [];
  const challenge: Challenge = {};
  for (const [, name, quoted, plain] of (bearer ?? '').matchAll(parameter)) {
    const value = quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '';
    if (name === 'resource_metadata') challenge.resourceMetadata ??= value;
    if (name === 'scope') challenge.scope ??= value;
    if (name === 'error') challenge.error ??= value;
  }
  return challenge;
}
