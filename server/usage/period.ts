/**
 * How long the stretches of time are that calls are counted in, and how long each kind is kept: enough for
 * the last hour by minutes, the last week by hours and the last year by days. All begin at whole ones in UTC.
 */
export const periods = {
  minute: { seconds: 60, keptSeconds: 2 * 3600 },
  hour: { seconds: 3600, keptSeconds: 8 * 86_400 },
  day: { seconds: 86_400, keptSeconds: 400 * 86_400 },
} as const;

/** By what calls are counted: a stretch of a minute, an hour or a day. */
export type Period = keyof typeof periods;
