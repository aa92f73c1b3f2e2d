import { isAbsolute } from 'node:path';
import { membersOf } from 'latchkey-mcp/json-value';
import { webUrl } from '#transport/web-url';

/** The identity provider of a company, and this program's client there. */
export type IdentityProvider = {
  issuer: string;
  clientId: string;
  /** In a configuration, a reference to the secret, as {@link isReference} accepts it. */
  clientSecret?: string;
  /** The port of the redirect URI, if the client was registered with a fixed one. */
  redirectPort?: number;
  /** The URL of the server that named it, if the company did not. The provider must not be further inside a private network than that. */
  namedBy?: string;
};

/** Whether a text refers to a secret, and is not the secret itself: `file:` with an absolute path, or `env:` with a name. */
export function isReference(text: string): boolean {
  return /^env:[A-Za-z_]\w*$/.test(text) || (text.startsWith('file:') && isAbsolute(text.slice(5)));
}

/**
 * Reads `CLIENT_ID@ISSUER`, or an object with `issuer` and `clientId`, a reference to the `clientSecret` if the provider requires one, and
 * the `redirectPort` if it is fixed. The issuer is https, or http on this computer.
 */
export function readIdentityProvider(
  value: unknown,
  complain: (problem: string) => void,
): IdentityProvider | undefined {
  if (value === '') return undefined;
  const given = typeof value === 'string' ? membersOfText(value) : membersOf(value);
  const { issuer, clientId, clientSecret, redirectPort } = given;
  const refuse = (problem: string): undefined => {
    complain(problem);
  };
  const url = typeof issuer === 'string' && webUrl(issuer);
  if (!url || url.search || url.hash || typeof clientId !== 'string' || clientId === '')
    return refuse('is not CLIENT_ID@ISSUER, with an https URL as the issuer');
  if (
    clientSecret !== undefined &&
    !(typeof clientSecret === 'string' && isReference(clientSecret))
  )
    return refuse('has a clientSecret that is neither file:PATH nor env:NAME');
  if (redirectPort !== undefined && !isPort(redirectPort))
    return refuse('has a redirectPort that is not a port between 1 and 65535');
  return {
    issuer,
    clientId,
    ...(clientSecret !== undefined && { clientSecret }),
    ...(redirectPort !== undefined && { redirectPort }),
  };
}

export function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536;
}

/** A client id may be a URL, and contain an `@`. An issuer has no user information. */
function membersOfText(text: string): Record<string, unknown> {
  const at = text.lastIndexOf('@http');
  return { clientId: text.slice(0, Math.max(0, at)), issuer: text.slice(at + 1) };
}
