import type { NamedGrant } from '#db/grants';
import { partsOf } from '#model/slug';
import { applicationName } from './consent.ts';
import { displayName } from './html.ts';
import { titleWithName } from './titles.ts';

// How pages name a device, and the access of an application on it.

/** A device as its proxy names it. `system` may be empty. */
interface NamedDevice {
  readonly name: string;
  readonly system: string;
}

const longestName = 60;

/** The displayed name of a device: `danas-macbook (macOS)`. Its proxy chose both parts. */
export function deviceName({ name, system }: NamedDevice): string {
  const shown = displayName(name, longestName) || 'An unnamed device';
  const of = displayName(system, longestName);
  return of === '' ? shown : `${shown} (${of})`;
}

/** The line below the name of an application that says where it runs. */
export function deviceNote(device: NamedDevice | null | undefined): string | undefined {
  return device ? `On ${deviceName(device)}` : undefined;
}

/** Tells the grants of an application apart: `Library (library) on danas-macbook (macOS)`. */
export function accessName({
  serverPath,
  titles,
  device,
}: Pick<NamedGrant, 'serverPath' | 'titles' | 'device'>): string {
  const { server: name } = partsOf(serverPath);
  const server = titleWithName({ name, title: titles.server });
  return device ? `${server} on ${deviceName(device)}` : server;
}

/** The notice for a person who has withdrawn a grant. */
export function withdrawnWords(grant: NamedGrant): string {
  return `Consent withdrawn. ${applicationName(grant)} no longer has access to ${accessName(grant)}.`;
}
