import type { EpochSeconds } from '#clock/clock';

/** How a running proxy stands towards its server, for whoever shows it to a person. */
export type Standing =
  | { state: 'online' }
  | { state: 'offline' | 'signed_out'; sinceAt: EpochSeconds; reason: string };

/** Hears how a running proxy stands, each time that changes. */
export interface Presence {
  changed(standing: Standing): void;
}
