/** The part of a list to return, and the order. */
export interface PageQuery<Sort extends string> {
  readonly sort: Sort;
  readonly descending: boolean;
  /** Selects items whose names contain this text, ignoring case. */
  readonly text?: string | undefined;
  readonly limit: number;
  /** The number of items before the page. */
  readonly offset: number;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** The number of items in the whole list. */
  readonly total: number;
}
