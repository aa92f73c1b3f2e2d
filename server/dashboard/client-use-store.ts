import type { EpochSeconds } from '#clock/clock';

/** Who would lose something with an OAuth client. */
export interface ClientUseStore {
  /** How many people let it act for them now. */
  people(clientId: string, now: EpochSeconds): Promise<number>;
}
