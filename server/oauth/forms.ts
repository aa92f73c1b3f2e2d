import { isUtf8 } from 'node:buffer';

import { strictJson, wanted } from 'latchkey-mcp/json';
import { isObject } from 'latchkey-mcp/json-value';
import { OAuthError } from './oauth-error.ts';

const usualParameters = 64;

/** A request's parameters by name. A parameter without a value is absent. RFC 6749 §3.2 */
export type Form = ReadonlyMap<string, string>;

/**
 * Parses an `application/x-www-form-urlencoded` body strictly: UTF-8, no NUL, no parameter twice, and at most `most` parameters.
 *
 * @throws {OAuthError} `invalid_request`
 */
export function parseForm(
  contentType: string | undefined,
  body: Uint8Array,
  most = usualParameters,
): Form {
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/x-www-form-urlencoded') {
    throw new OAuthError(
      'invalid_request',
      'the body and its Content-Type must be application/x-www-form-urlencoded',
    );
  }
  if (!isUtf8(body)) throw new OAuthError('invalid_request', 'the body is not UTF-8');
  const form = new Map<string, string>();
  const pairs = Buffer.from(body).toString('utf8').split('&').filter(Boolean);
  if (pairs.length > most) throw new OAuthError('invalid_request', 'too many parameters');
  const seen = new Set<string>();
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1));
    if (seen.has(name)) throw new OAuthError('invalid_request', `${quote(name)} is repeated`);
    seen.add(name);
    if (value !== '') form.set(name, value);
  }
  return form;
}

const anyMembers = wanted({});

/**
 * Parses a JSON body strictly: one object in UTF-8, without anything that parsers read differently, such as a duplicate member
 * at any level.
 *
 * @throws {OAuthError} `invalid_request`, or the code that is passed
 */
export function parseJsonObject(
  body: unknown,
  code: 'invalid_request' | 'invalid_client_metadata' = 'invalid_request',
): Readonly<Record<string, unknown>> {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0);
  const read = strictJson(bytes, anyMembers);
  if (read.outcome === 'refused' && read.why === 'not allowed') {
    throw new OAuthError(code, `the body is refused: ${read.reason}`);
  }
  const value: unknown = read.outcome === 'json' ? JSON.parse(bytes.toString('utf8')) : undefined;
  if (isObject(value)) return value;
  throw new OAuthError(code, 'the body is not a JSON object');
}

/** Decodes one form-encoded name or value. */
export function decode(text: string): string {
  let plain: string;
  try {
    plain = decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new OAuthError('invalid_request', 'a parameter is not percent-encoded UTF-8');
  }
  if (plain.includes('\0')) throw new OAuthError('invalid_request', 'a parameter contains NUL');
  return plain;
}

/** Makes a name from the request safe to quote in an answer. RFC 6749 §5.2 allows these characters. */
function quote(name: string): string {
  return `'${name.slice(0, 40).replaceAll(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, '?')}'`;
}
