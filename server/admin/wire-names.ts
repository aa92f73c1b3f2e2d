import { AdministrationRefusal } from './refusal.ts';

/** Members defined by other standards, which are not renamed. */
const verbatim = new Set(['jwks']);

/** The recursion needs a limit. No valid request is nested more deeply. */
const deepest = 32;

/** The wire name of a field: `redirect_uris.0` for `redirectUris.0`. */
export function wireName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Renames the members of a value to their wire names, in depth. */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      wireName(name),
      verbatim.has(name) ? member : toWire(member),
    ]),
  );
}

/**
 * Renames the members of a value from their wire names, in depth.
 *
 * @throws {AdministrationRefusal} `invalid` for a member that is not a wire name, such as `redirectUris`, and for a value that
 * is nested too deeply
 */
export function fromWire(value: object): Record<string, unknown> {
  checkDepth(value, deepest);
  return namedAsOurs(value);
}

function checkDepth(value: unknown, left: number): void {
  if (typeof value !== 'object' || value === null) return;
  if (left === 0) {
    const problem = 'the body is nested too deeply';
    throw new AdministrationRefusal('invalid', problem, { fields: [{ field: '', problem }] });
  }
  for (const member of Object.values(value)) checkDepth(member, left - 1);
}

function namedAsOurs(value: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([name, member]: [string, unknown]) => [
      ownName(name),
      verbatim.has(name) ? member : memberFromWire(member),
    ]),
  );
}

function memberFromWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(memberFromWire);
  return typeof value === 'object' && value !== null ? namedAsOurs(value) : value;
}

function ownName(name: string): string {
  if (/[A-Z]/.test(name)) {
    // A text that does not look like a name is not repeated: it may be a secret in the wrong place.
    const isName = /^[A-Za-z]{1,40}$/.test(name);
    const problem = isName ? `must not be spelled ${name}` : 'names have no capital letters';
    const fields = [{ field: isName ? wireName(name) : '', problem }];
    throw new AdministrationRefusal('invalid', problem, { fields });
  }
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
