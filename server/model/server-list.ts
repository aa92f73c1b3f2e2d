/** The path of the list of a person's servers, which is a protected resource of its own. */
export const serverListPath = '/api/my/servers';

export function serverListUrl(base: string): string {
  return `${base}${serverListPath}`;
}
