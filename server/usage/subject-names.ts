import type { CallKind } from './rollup-store.ts';

/** Finds what people call the things that calls are counted for. */
export interface SubjectNames {
  /** Names by id; what is gone has none. Tools and methods are their own names. */
  of(kind: CallKind, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}
