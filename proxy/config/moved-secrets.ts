import { inKeychain } from './connection.ts';
import type { ImportStep } from './import-plan.ts';

/** An authentication scheme stands before the secret of such a header, as in `Bearer TOKEN`. */
const scheme = /^\w[\w-]* +(\S+)$/;

/**
 * Replaces, wherever they stand in a file's strings and comments, the secrets that `steps` move to the keychain:
 * as they are, after a scheme, in JSON inside of a string, and the variables that an entry makes them of.
 * `entries` are the entries as the file has them.
 */
export function movedSecretsMask(
  steps: readonly ImportStep[],
  entries: readonly unknown[],
): (text: string) => string {
  const secrets = steps.flatMap(({ secrets: { apiKeySecret, clientSecret, headerSecrets = {} } }) =>
    [apiKeySecret, clientSecret, ...Object.values(headerSecrets)].filter(isText),
  );
  const parts = [
    ...secrets.map((secret) => scheme.exec(secret)?.[1] ?? ''),
    ...entries.flatMap((entry) => filledIn(entry, secrets)),
  ];
  const known = [...new Set([...secrets, ...parts])]
    .filter((secret) => secret !== '' && secret !== inKeychain)
    .sort((one, other) => other.length - one.length);
  const headers = new Set(steps.flatMap(({ secretHeaders }) => secretHeaders));

  return function mask(text) {
    if (known.length === 0) return text;
    const [, name = ''] = /^([\w-]+):/.exec(text) ?? [];
    if (headers.has(name.toLowerCase())) return `${name}: ${inKeychain}`;
    const inside = /^\s*[{[]/.test(text) ? maskedInside(text, mask) : undefined;
    return inside ?? known.reduce((rest, secret) => rest.replaceAll(secret, inKeychain), text);
  };
}

/** JSON in a string may spell a secret in its own way. */
function maskedInside(text: string, mask: (text: string) => string): string | undefined {
  try {
    let changed = false;
    const masked = JSON.stringify(JSON.parse(text), (_, value: unknown) => {
      if (!isText(value)) return value;
      const safe = mask(value);
      changed ||= safe !== value;
      return safe;
    });
    return changed ? masked : undefined;
  } catch {
    return undefined;
  }
}

/** The variables of an entry whose values its arguments make a secret of, as in `Bearer ${TOKEN}`. */
function filledIn(entry: unknown, secrets: readonly string[]): string[] {
  const { env, args } = asObject(entry);
  const words = JSON.stringify(args ?? []);
  return Object.entries(asObject(env)).flatMap(([name, value]) =>
    isText(value) && words.includes(`\${${name}}`) && secrets.some((one) => one.includes(value))
      ? [value]
      : [],
  );
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
