import type { Cell } from './table.ts';

/** A line of `@facts`: what it is called, and how it is, in words or as a cell of a table. */
export interface Fact {
  readonly label: string;
  readonly text?: string;
  readonly cell?: Cell;
}
