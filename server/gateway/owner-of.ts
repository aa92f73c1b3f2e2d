/** Whom sessions, links and what waits for somebody belong to: a principal at a server. */
export function ownerOf(principal: string, serverId: string): string {
  return `${principal} ${serverId}`;
}
