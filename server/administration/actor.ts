import type { EpochSeconds } from '#clock/clock';

/** Who administers: the operator at the command line, who may everything, or a person. */
export type Actor = {
  /** Where from; `undefined` at the command line. */
  readonly address: string | undefined;
  readonly requestId: string | undefined;
} & (
  | { readonly type: 'operator' }
  | {
      readonly type: 'person';
      readonly userId: string;
      /** When this browser last proved who it is; `undefined` for a personal token, which proves less. */
      readonly provedAt: EpochSeconds | undefined;
      /** How many factors were proved, by this browser or by the one that made the token. */
      readonly factors: 1 | 2;
    }
);

/** The operator of this machine. */
export const operator: Actor = { type: 'operator', address: undefined, requestId: undefined };

/** How the audit log names an actor. */
export function actorName(actor: Actor): string {
  return actor.type === 'operator' ? 'operator' : `user:${actor.userId}`;
}
