import type { EpochSeconds } from '#model/clock';
import { html, type Html } from './html.ts';

/** The forms of a time on pages, for `Intl.DateTimeFormat`. The script of the dashboard uses the same. */
export const timeForms = {
  /** `14:00` */
  clock: { hour: '2-digit', minute: '2-digit' },
  /** `3 May` */
  day: { day: 'numeric', month: 'short' },
  /** `3 May, 14:00` */
  moment: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  /** `3 May 2026, 14:00:05 CEST` */
  exact: {
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;

/** The language of all pages, with a clock of 24 hours. */
export const timeLanguage = 'en-GB';

type TimeForm = keyof typeof timeForms;

/** Created on first use, because loading the data of a language takes ten milliseconds. */
const formats: Partial<Record<TimeForm, Intl.DateTimeFormat>> = {};

/** A time in UTC. */
export function timeIn(form: TimeForm, at: EpochSeconds): string {
  formats[form] ??= new Intl.DateTimeFormat(timeLanguage, { ...timeForms[form], timeZone: 'UTC' });
  return formats[form].format(at * 1000);
}

/** A time in UTC, which our script replaces by the one in the viewer's time zone. */
export function localTime(form: TimeForm, at: EpochSeconds): Html {
  return html`<time datetime="${isoTime(at)}" data-form="${form}">${timeIn(form, at)}</time>`;
}

/** As `localTime`, within a `text` element of an SVG, which cannot contain a `time` element. */
export function svgTime(form: TimeForm, at: EpochSeconds): Html {
  return html`<tspan data-at="${isoTime(at)}" data-form="${form}">${timeIn(form, at)}</tspan>`;
}

/** Says which time zone the times of the page are in; our script replaces it with the viewer's. */
export function zoneNote(): Html {
  return html`<span class="soft" data-zone>Times are UTC.</span>`;
}

/** As `2026-05-03T14:00:00Z`. */
export function isoTime(at: EpochSeconds): string {
  return new Date(at * 1000).toISOString().replace('.000Z', 'Z');
}
