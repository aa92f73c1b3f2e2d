import type { Outcome, Probed } from '#contract';

export type Found = Extract<Probed, { ok: true }>;

/** How a person proves who they are. */
export type Way = 'person' | 'client' | 'api_key' | 'pasted';

export type Who = { found: Found; way: Way; problem?: Outcome };

/** Where the person is: first which server, then who they are to it, then what came of it. */
export type Step =
  | { at: 'url'; problem?: Outcome }
  | ({ at: 'who' } & Who)
  | { at: 'adding'; name: string; way: Way; found: Found }
  | { at: 'done'; name: string; message: string };
