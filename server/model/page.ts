/** Which part of a list is wanted, and in what order. */
export interface PageQuery<Sort extends string> {
  readonly sort: Sort;
  readonly descending: boolean;
  /** Only what has this in its name, whatever the case. */
  readonly text?: string | undefined;
  readonly limit: number;
  /** How many come before. */
  readonly offset: number;
}

/** A part of a list. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** How many the whole list has. */
  readonly total: number;
}
