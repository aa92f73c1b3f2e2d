import { GatewayRefusal } from './gateway-refusal.ts';

/** The one credential that a request carries, by its form. */
export type PresentedCredential =
  | { readonly type: 'key'; readonly key: string }
  | { readonly type: 'token'; readonly token: string };

/** A person whose browser session was looked up just now. */
export interface VouchedPerson {
  readonly type: 'person';
  readonly userId: string;
}

/**
 * Reads the credential from the headers, and from nowhere else. `Bearer mcp_…` is a key, as many
 * assistants can set no other header. Two credentials, or one header twice, is refused: choosing one
 * would let a proxy in front and this server choose differently.
 *
 * RFC 6750 §2.1
 *
 * @throws {GatewayRefusal} `no_credential`, `two_credentials`, `bad_credential`
 */
export function presentedCredential(rawHeaders: readonly string[]): PresentedCredential {
  const found: { name: string; value: string }[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]?.toLowerCase();
    if (name === 'authorization' || name === 'x-api-key') {
      found.push({ name, value: rawHeaders[index + 1] ?? '' });
    }
  }
  const [only, another] = found;
  if (!only) throw new GatewayRefusal('no_credential');
  if (another) throw new GatewayRefusal('two_credentials');
  if (only.name === 'x-api-key') return { type: 'key', key: only.value };
  const bearer = /^Bearer +(\S+)$/i.exec(only.value)?.[1];
  if (bearer === undefined) throw new GatewayRefusal('bad_credential');
  return bearer.startsWith('mcp_')
    ? { type: 'key', key: bearer }
    : { type: 'token', token: bearer };
}
