// The parts of the Activity filter for which its form has no field.

import { findDeviceNames } from '#db/devices';
import { type CallRecord, isPseudonym } from '#model/calls';
import { html, type Html } from '#web/html';
import { localTime } from '#web/times';
import { activityPath, type ActivityQuery, callerName, daySeconds } from './calls.ts';
import type { DashboardPorts } from './ports.ts';

/** A part of the filter that the form has no field for, with a link that removes it. */
export interface Chip {
  readonly label: string;
  readonly value: string | Html;
  readonly href: string;
}

/** The name of the device that made the first found call. */
export async function deviceOf(
  [call]: readonly CallRecord[],
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<string | undefined> {
  const { deviceId } = call ?? {};
  if (deviceId === undefined) return undefined;
  return (await findDeviceNames(db, [deviceId])).get(deviceId);
}

/** Shows a name instead of an id, but only one from a found call, so that nothing of another organization is revealed. */
export function chipsOf(
  organization: string,
  query: ActivityQuery,
  [call]: readonly CallRecord[],
  deviceName: string | undefined,
): readonly Chip[] {
  const { device, person, application, versions, credential, server, error, from, until } = query;
  const without = (...left: readonly (keyof ActivityQuery)[]) => {
    const kept = Object.entries(query).filter(([name]) => !left.some((one) => one === name));
    return activityPath(organization, Object.fromEntries(kept));
  };
  const chips: (Chip | undefined)[] = [
    person === undefined || !isPersonId(person)
      ? undefined
      : { label: 'Person', value: call ? callerName(call) : person, href: without('person') },
    application === undefined
      ? undefined
      : {
          label: versions === 'all' ? 'Application, all versions' : 'Application',
          value: application,
          href: without('application', 'versions'),
        },
    device === undefined
      ? undefined
      : { label: 'Device', value: deviceName ?? device, href: without('device') },
    credential === undefined
      ? undefined
      : {
          label: 'Credential',
          value: call?.credential.name || credential,
          href: without('credential'),
        },
    server === undefined
      ? undefined
      : { label: 'Server', value: call?.target.name ?? server, href: without('server') },
    error === undefined ? undefined : { label: 'Error', value: error, href: without('error') },
    isMoment(from) || isMoment(until)
      ? {
          label: 'Time',
          value: html`${momentText(from)} – ${momentText(until)}`,
          href: without('from', 'until'),
        }
      : undefined,
  ];
  return chips.filter((chip) => chip !== undefined);
}

/** Whether the value of a filter is the id of a person or a pseudonym. */
export function isPersonId(person: string): boolean {
  return !person.includes('@') && (isPseudonym(person) || person.startsWith('user_'));
}

export function isMoment(text: string | undefined): text is string {
  return text?.includes('T') === true && momentOf(text, false) !== undefined;
}

function momentText(text: string | undefined): Html | string {
  const at = momentOf(text, true);
  return at === undefined ? 'now' : localTime('moment', Math.floor(at / 1000));
}

/** A day such as `2026-05-03` (its end, if `dayEnds`), or a moment such as `2026-05-03T14:00:00Z`, in ms since 1970. */
export function momentOf(text: string | undefined, dayEnds: boolean): number | undefined {
  if (text === undefined) return undefined;
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text);
  if (!isDay && !/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text)) return undefined;
  const at = Date.parse(isDay ? `${text}T00:00:00Z` : text);
  if (Number.isNaN(at)) return undefined;
  return isDay && dayEnds ? at + daySeconds * 1000 : at;
}
