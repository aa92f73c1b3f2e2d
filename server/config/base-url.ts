import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from './usage-error.ts';

const loopbackHosts = new Set(['127.0.0.1', '[::1]', 'localhost']);

/**
 * Validates the public URL: https, or http on loopback; nothing after the port; and in canonical form, because it is
 * compared byte for byte in tokens and metadata.
 *
 * @throws {UsageError}
 */
export function checkBaseUrl(text: string): string {
  const wrong = (why: string) =>
    new UsageError(`--base-url ${text} ${why}`, 'example: https://latchkey.example.com');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw wrong('is not a URL');
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw wrong('must use https');
  if (url.protocol === 'http:' && !loopbackHosts.has(url.hostname)) {
    throw wrong('uses http, which is allowed only for 127.0.0.1, [::1] and localhost');
  }
  if (text !== url.origin) throw wrong(`must be exactly ${url.origin}`);
  return text;
}

const noteName = 'base-url';

/** Writes the public URL of the running server into its data folder, for the commands that print URLs. */
export function noteBaseUrl(dataDir: string, base: string): void {
  writeFileSync(join(dataDir, noteName), `${base}\n`, { mode: 0o600 });
}

/** The public URL of the server that ran last with this data folder; `undefined` if there is none. */
export function notedBaseUrl(dataDir: string): string | undefined {
  try {
    return checkBaseUrl(readFileSync(join(dataDir, noteName), 'utf8').trimEnd());
  } catch {
    return undefined;
  }
}

/** The URL of a server that listens on `host` and has no other public URL. */
export function listeningUrl(host: string, port: number): string {
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`).origin;
}
