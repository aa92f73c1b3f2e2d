import { strToU8, zipSync } from 'fflate';
import { redact } from '#log/redact';

/**
 * A zip of JSON documents, by their names, without the `secrets` and without whatever looks like one.
 */
export function redactedBundle(
  documents: Readonly<Record<string, unknown>>,
  secrets: readonly string[],
): Uint8Array {
  const ways = [...new Set(secrets.flatMap((secret) => [secret, encodeURIComponent(secret)]))]
    // The longest first, so that none leaves the rest of another behind.
    .toSorted((one, other) => other.length - one.length);
  const clean = (_: string, value: unknown) =>
    // By shape first: a short known one may stand inside one that is known by its shape alone.
    typeof value === 'string' ? redact(redact(value), ways) : value;
  const files = Object.entries(documents).map(([name, document]): [string, Uint8Array] => [
    `latchkey-doctor/${name}.json`,
    strToU8(`${JSON.stringify(document, clean, 2)}\n`),
  ]);
  return zipSync(Object.fromEntries(files));
}
