/**
 * Lengths and retention of the periods that calls are counted in: enough for the last hour by minutes, the last week
 * by hours and the last year by days. Periods are aligned to UTC.
 */
export const periods = {
  minute: { seconds: 60, retentionSeconds: 2 * 3600 },
  hour: { seconds: 3600, retentionSeconds: 8 * 86_400 },
  day: { seconds: 86_400, retentionSeconds: 400 * 86_400 },
} as const;

/** A minute, an hour or a day. */
export type Period = keyof typeof periods;
