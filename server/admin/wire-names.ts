import { AdministrationRefusal } from './refusal.ts';

/** Members defined by other standards, which are not renamed. */
const verbatim = new Set(['jwks']);

/** No request is nested more deeply, and the recursion here needs a limit. */
const deepest = 32;

/** `redirectUris.0` as it stands on the wire: `redirect_uris.0`. */
export function wireName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A value with its members named as on the wire. */
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
 * A value from the wire with its members named as operations name them.
 *
 * @throws {AdministrationRefusal} `invalid` for a name that is no name of the wire, as `redirectUris`, and for what is
 * nested too deeply
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
    // What looks like no name is not repeated: it may be a secret in the wrong place.
    const isName = /^[A-Za-z]{1,40}$/.test(name);
    const problem = isName ? `may not be spelt ${name}` : 'names have no capital letters';
    const fields = [{ field: isName ? wireName(name) : '', problem }];
    throw new AdministrationRefusal('invalid', problem, { fields });
  }
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
