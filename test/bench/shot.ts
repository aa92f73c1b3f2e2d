/** A placeholder in a body for a number that no other request under way has. */
export const numberHere = '%NUMBER%';

/** One POST, over and over. */
export interface Shot {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Makes a new body for each request, at a cost to the process that makes the load. */
  readonly fresh?: () => string;
  /** A text that every answer must contain. */
  readonly wanted?: string;
}
