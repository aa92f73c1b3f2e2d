/**
 * Whether Latchkey asks an identity provider again about people who signed in through it. `auto`: unless the provider announces logouts
 * itself; `always`: even then; `never`: their access here ends only with their session.
 */
export const checkAgainModes = ['auto', 'always', 'never'] as const;

export type CheckAgain = (typeof checkAgainModes)[number];

/** When people are checked again at the provider that they came through. */
export interface ProviderChecking {
  readonly checkAgain: CheckAgain;
  /** How long after the last check, while they have a session through the provider. */
  readonly sessionCheckMinutes: number;
  /** How long after the last check, while only applications have access for them. */
  readonly grantCheckHours: number;
}

/** The bounds and the default of each interval. */
export const checkIntervals = {
  sessionCheckMinutes: { least: 5, most: 1440, usual: 60 },
  grantCheckHours: { least: 1, most: 168, usual: 24 },
} as const;

/** How people are checked unless someone chose otherwise. */
export const usualChecking: ProviderChecking = {
  checkAgain: 'auto',
  sessionCheckMinutes: checkIntervals.sessionCheckMinutes.usual,
  grantCheckHours: checkIntervals.grantCheckHours.usual,
};
