import { hash, randomFillSync } from 'node:crypto';
import { crc32 } from 'node:zlib';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomCharacters = 30;
const checksumCharacters = 6;

/** Prefixes of secrets: OAuth client secret, agent key, MCP key, code, refresh token, personal token, token of a directory. */
export type SecretPrefix = 'secret_' | 'pk_live_' | 'mcp_' | 'code_' | 'rt_' | 'pat_' | 'scim_';

/** Random bytes for later use, because generating them one by one takes longer than everything else about a token. */
const pool = Buffer.alloc(1024);
let used = pool.length;

export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) text += base62.charAt(randomByte() % base62.length);
  return text;
}

/** `user_` and 16 base62 characters. */
export function newUserId(): string {
  return `user_${randomBase62(16)}`;
}

/** `target_` and 16 base62 characters. */
export function newTargetId(): string {
  return `target_${randomBase62(16)}`;
}

/** A byte below 248, which is four times 62, so that no character is more likely than another. */
function randomByte(): number {
  for (;;) {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    const byte = pool[used] ?? 255;
    // Bytes that became part of a secret must not stay in memory.
    pool[used] = 0;
    used += 1;
    if (byte < 248) return byte;
  }
}

/**
 * Generates a secret: prefix, 30 random base62 characters (178 bits), and the CRC32 of all that as 6 base62
 * characters. With the checksum a scanner can tell a leaked secret from a look-alike offline.
 */
export function mintSecret(prefix: SecretPrefix): string {
  const body = prefix + randomBase62(randomCharacters);
  return body + checksum(body);
}

/** Whether `text` has the form of a secret with this prefix and a correct checksum. */
export function isWellFormedSecret(prefix: SecretPrefix, text: string): boolean {
  if (!text.startsWith(prefix)) return false;
  const tail = text.slice(prefix.length);
  if (tail.length !== randomCharacters + checksumCharacters || !/^[0-9A-Za-z]+$/.test(tail)) {
    return false;
  }
  return checksum(text.slice(0, -checksumCharacters)) === text.slice(-checksumCharacters);
}

/**
 * SHA-256 in hex, the only form in which a secret is stored. No salt or stretching, because the input has 178 random
 * bits.
 */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex');
}

/** The part of a secret that may be displayed later, such as `mcp_…x7Qz`. */
export function secretHint(secret: string): string {
  const prefix = /^(?:secret|pk_live|mcp|code|rt|pat|scim)_/.exec(secret)?.[0] ?? '';
  return `${prefix}…${secret.slice(-4)}`;
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let place = 0; place < checksumCharacters; place += 1) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
