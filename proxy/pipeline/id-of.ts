import type { Message } from '#jsonrpc/message';

/** The JSON text of the id to answer `request` under. */
export function idOf({ id = 'null' }: Message): string {
  return id;
}
