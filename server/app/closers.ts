/** Functions that close the parts of a server, in the order in which the parts were opened. */
export type Closers = (() => Promise<void>)[];

/** Closes the parts in the opposite order, because each uses those that were opened before it. */
export async function closeAll(closers: Closers): Promise<void> {
  for (const close of closers.splice(0).toReversed()) await close();
}
