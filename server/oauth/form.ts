import { isUtf8 } from 'node:buffer';

import { OAuthRefusal } from './oauth-refusal.ts';

const maxParameters = 64;

/** A request's parameters by name. One that was sent without a value is absent. RFC 6749 §3.2 */
export type Form = ReadonlyMap<string, string>;

/**
 * Reads an `application/x-www-form-urlencoded` body strictly: UTF-8, no NUL, no parameter twice.
 *
 * @throws {OAuthRefusal} `invalid_request`
 */
export function parseForm(contentType: string | undefined, body: Uint8Array): Form {
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/x-www-form-urlencoded') {
    throw new OAuthRefusal(
      'invalid_request',
      'the body must be application/x-www-form-urlencoded, see the Content-Type header',
    );
  }
  if (!isUtf8(body)) throw new OAuthRefusal('invalid_request', 'the body is not UTF-8');
  const form = new Map<string, string>();
  const pairs = Buffer.from(body).toString('utf8').split('&').filter(Boolean);
  if (pairs.length > maxParameters)
    throw new OAuthRefusal('invalid_request', 'too many parameters');
  const seen = new Set<string>();
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1));
    if (seen.has(name)) throw new OAuthRefusal('invalid_request', `${quote(name)} is repeated`);
    seen.add(name);
    if (value !== '') form.set(name, value);
  }
  return form;
}

/** Undoes form encoding of one name or value. */
export function decode(text: string): string {
  let plain: string;
  try {
    plain = decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new OAuthRefusal('invalid_request', 'a parameter is not percent-encoded UTF-8');
  }
  if (plain.includes('\0')) throw new OAuthRefusal('invalid_request', 'a parameter contains NUL');
  return plain;
}

/** A name from the request, fit to be repeated in an answer. RFC 6749 §5.2 allows these characters. */
function quote(name: string): string {
  return `'${name.slice(0, 40).replaceAll(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, '?')}'`;
}
