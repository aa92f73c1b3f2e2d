/** Stands in a body for a number that no other request has which is under way. */
export const numberHere = '%NUMBER%';

/** One POST, over and over. */
export interface Shot {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Makes another body for each request, which costs the load time. */
  readonly fresh?: () => string;
  /** What every answer has in it. */
  readonly wanted?: string;
}
