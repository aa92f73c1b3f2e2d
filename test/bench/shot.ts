/** Stands in a body for a number that no other request has which is under way. */
export const numberHere = '%NUMBER%';

/** One POST, over and over. */
export interface Shot {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** What every answer has in it. */
  readonly wanted?: string;
}
