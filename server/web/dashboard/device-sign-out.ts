import { deviceList, deviceSignOut, toDeviceView } from '#admin/devices';
import { personRead } from '#admin/people';
import { notFound } from '#admin/refusal';
import { listDevices, type DeviceOwner } from '#db/devices';
import { signOutOwnDevice } from '#oauth/devices';
import { deviceName } from '#web/access-words';
import { visitOf } from '#web/page-session';
import { namesOf, type DeviceView } from './devices.ts';
import type { DashboardGuard, DashboardVisit } from './guard.ts';
import { applicationCrumbs, applicationsPath, toUse } from './own-applications.ts';
import { personCrumbs, personPath } from './person.ts';
import { inWords, questionRoutes, type Question } from './questions.ts';

/** The questions before a device is signed out: by its person, and by an administrator. */
export function deviceRoutes(guard: DashboardGuard): void {
  questionRoutes(guard, '/applications/devices/:deviceId/sign-out', toUse, ownSignOut);
}

export function personDeviceRoutes(guard: DashboardGuard): void {
  const path = '/people/:userId/devices/:deviceId/sign-out';
  questionRoutes(guard, path, 'grants.manage', signOutOfPerson);
}

const stays = 'A browser that is signed in there stays signed in.';

/** Where the person may end access: everywhere, unless a provider of this organization opened their session. */
function reach({ organization, person }: DashboardVisit): DeviceOwner {
  const userId = person.user.id;
  return person.session.through ? { userId, within: [organization] } : { userId };
}

const ownSignOut: Question = {
  async ask(visit, { params: { deviceId = '' } }, { ports }) {
    const devices = await listDevices(ports.db, reach(visit), ports.clock.now());
    const device = devices.find(({ id }) => id === deviceId);
    if (!device) throw notFound('device');
    const view = toDeviceView(device);
    return {
      heading: `Sign out ${deviceName(view)}?`,
      consequences: [
        ...consequences(view),
        `${stays} Sign out of all browsers on your account page.`,
      ],
      verb: 'Sign out device',
      cancel: applicationsPath(visit.organization),
      crumbs: applicationCrumbs(visit.organization, deviceName(view)),
    };
  },
  async act(visit, request, { ports }) {
    const { deviceId = '' } = request.params;
    const from = { ...ports, source: visitOf(request) };
    if (!(await signOutOwnDevice(deviceId, reach(visit), from))) throw notFound('device');
    return `${applicationsPath(visit.organization)}?done=device`;
  },
};

const signOutOfPerson: Question = {
  async ask({ organization, perform }, { params: { userId = '', deviceId = '' } }) {
    const { email } = await perform(personRead, { userId });
    const { items } = await perform(deviceList, { userId });
    const device = items.find(({ id }) => id === deviceId);
    if (!device) throw notFound('device');
    return {
      heading: `Sign out ${deviceName(device)} of ${email}?`,
      consequences: [...consequences(device), `${stays} “Sign out everywhere” ends that too.`],
      verb: 'Sign out device',
      cancel: personPath(organization, userId),
      crumbs: personCrumbs(organization, email),
    };
  },
  async act({ organization, perform }, { params: { userId = '', deviceId = '' } }) {
    await perform(deviceSignOut, { userId, deviceId });
    return `${personPath(organization, userId)}?done=device`;
  },
};

function consequences(device: DeviceView): readonly string[] {
  const servers = new Set(device.applications.map(({ server }) => server)).size;
  const of = servers === 1 ? 'one server' : `${servers} servers`;
  const names = namesOf(device);
  const lose = names.length === 1 ? 'loses' : 'lose';
  return [
    `On ${deviceName(device)}, ${inWords(names)} ${lose} access to ${of} immediately, including running calls.`,
    'To use it again, someone has to sign in on that device.',
  ];
}
