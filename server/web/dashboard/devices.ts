import { deviceList, toDeviceView } from '#admin/devices';
import { listDevices } from '#db/devices';
import type { EpochSeconds } from '#model/clock';
import { deviceName } from '#web/access-words';
import { applicationName } from '#web/consent';
import { displayName, html, type Html } from '#web/html';
import { dataTable, type Table, timeCell } from '#web/tables';
import { activityPath } from './calls.ts';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

export type DeviceView = ReturnType<typeof toDeviceView>;

/** A section with a table of devices; `false` if there are none. `home` is the path above the pages that sign them out. */
function devicesSection(
  devices: readonly DeviceView[],
  {
    home,
    now,
    mayEnd,
    callsOf,
  }: {
    home: string;
    now: EpochSeconds;
    mayEnd: boolean;
    /** The calls that were made on a device, in Activity. */
    callsOf: (deviceId: string) => string;
  },
): Html | false {
  if (devices.length === 0) return false;
  const names = devices.map(deviceName);
  const isShared = (name: string) => names.indexOf(name) !== names.lastIndexOf(name);
  const table: Table = {
    caption: 'Devices with access',
    columns: ['Device', 'Assistants', 'Servers', 'Last used', 'Actions'],
    rows: devices.map((device) => {
      const { id, applications, lastUsedAt } = device;
      const of = deviceName(device);
      const calls = { text: 'Calls', href: callsOf(id), of };
      const signOut = { text: 'Sign out', href: `${home}/${id}/sign-out`, of, danger: true };
      return {
        id,
        cells: [
          { kind: 'name', text: of, note: isShared(of) ? `ID ${id}` : undefined },
          { kind: 'text', text: namesOf(device).join(', ') },
          { kind: 'text', text: String(new Set(applications.map(({ server }) => server)).size) },
          timeCell(lastUsedAt, 'Never'),
          { kind: 'actions', actions: mayEnd ? [calls, signOut] : [calls] },
        ],
      };
    }),
    empty: { text: 'No devices.' },
    now,
  };
  return html`<section class="section" aria-labelledby="devices-heading">
<h2 id="devices-heading">Devices</h2>
<p class="help">The Latchkey program on each device chooses its name.</p>
${dataTable(table)}
</section>`;
}

/** The displayed name of each assistant on a device, once. */
export function namesOf({ applications }: DeviceView): readonly string[] {
  const names = applications.map(({ client, assistant }) =>
    assistant === null ? applicationName({ clientName: client }) : displayName(assistant),
  );
  return [...new Set(names)];
}

/** The devices on which the person uses servers of this organization. `home` is the path of their page. */
export async function ownDevices(
  { organization, person }: DashboardVisit,
  home: string,
  ports: DashboardPorts,
): Promise<Html | false> {
  const now = ports.clock.now();
  const owner = { userId: person.user.id, within: [organization] };
  const devices = (await listDevices(ports.db, owner, now)).map(toDeviceView);
  const callsOf = (device: string) =>
    activityPath(organization, { person: person.user.id, device });
  return devicesSection(devices, { home: `${home}/devices`, now, mayEnd: true, callsOf });
}

/** The devices of a member, for administrators. `home` is the path of the page of the member. */
export async function devicesOf(
  { organization, perform, may }: DashboardVisit,
  { userId, home, now }: { userId: string; home: string; now: EpochSeconds },
): Promise<Html | false> {
  const { items } = await perform(deviceList, { userId });
  const callsOf = (device: string) => activityPath(organization, { person: userId, device });
  const mayEnd = may('grants.manage');
  return devicesSection(items, { home: `${home}/devices`, now, mayEnd, callsOf });
}
