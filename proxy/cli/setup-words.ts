// The messages of `latchkey setup` about a connection, whether it sets up one server or several.
import { setupCommand } from '#config/connection';
import type { KeptKey } from '#connections/accounts-service';
import { endpointOf } from '#connections/list-url';

type Kept = { name: string; url: string };

/** The note about an existing connection that uses an API key. `again` is the command that sets up the connection. */
export function keptKeyNote({ name, url }: Kept, again: string): string {
  return `note: ${name} already connects to ${url} with an API key, and goes on using it; ${toSignIn(name, again)}`;
}

/** The remedy for an API key that a connection cannot continue to use. */
export function keyRemedy(
  { name, url }: Kept,
  key: Exclude<KeptKey, 'in_use'>,
  again: string,
): string {
  const enter = key === 'rejected' ? `latchkey rotate ${name}` : setupCommand(url);
  return `${toSignIn(name, again)}; to keep using a key, run ${enter}`;
}

function toSignIn(name: string, again: string): string {
  return `to sign in instead, run latchkey remove ${name}, then ${again} again`;
}

export function toolCount(name: string, tools: number): string {
  return `${name}: ${tools === 1 ? '1 tool' : `${tools} tools`}`;
}

/** Explains why a Latchkey server may show a person no tools. The server's answer does not tell what the person allowed. */
export function noToolsHint({ url }: { url: string }): string | undefined {
  const [organization, server] = endpointOf(url) ?? [];
  if (organization === undefined) return undefined;
  const page = `${new URL(url).origin}/dashboard/${organization}/applications`;
  return `if you allowed only reading, ${server} may have no tool that is known to only read; change it under My applications: ${page}`;
}
