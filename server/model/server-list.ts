/** The path of the list of a person's servers, which is a protected resource of its own. */
export const serverListPath = '/api/my/servers';

/** The path of the list of a person's devices, for which tokens for the list of servers are valid. */
export const deviceListPath = '/api/my/devices';

export function serverListUrl(base: string): string {
  return `${base}${serverListPath}`;
}
