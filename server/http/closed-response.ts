/*
 * Handles the end of a response. A client may send a request before it has the answer to its previous request. The response then
 * waits behind the previous response, without a socket, and Node treats it differently when the connection closes.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The functions to call when a connection closes: one listener serves all responses of the connection. A list, because a `Set` that
 * lives as long as a connection keeps the entries that were deleted from it: see `brief-map.ts`.
 */
const atClose = new WeakMap<Socket, (() => void)[]>();

/**
 * Calls `act` once, when the response was sent or its connection closed. Before Node 24, a response that waits behind another one
 * is not told when their connection closes. @returns a function that stops waiting
 */
export function whenClosed(response: ServerResponse, act: () => void): () => void {
  const { socket } = response.req;
  if (response.closed || socket.destroyed) {
    act();
    return () => undefined;
  }
  const acts = actsOf(socket);
  /** Returns whether `act` had not been called yet. */
  const stop = () => {
    const at = acts.indexOf(closed);
    if (at < 0) return false;
    acts.splice(at, 1);
    response.off('close', closed);
    return true;
  };
  const closed = () => {
    // The event still reaches listeners that are removed while it is emitted.
    if (stop()) act();
  };
  acts.push(closed);
  response.on('close', closed);
  return stop;
}

function actsOf(socket: Socket): (() => void)[] {
  const known = atClose.get(socket);
  if (known) return known;
  const acts: (() => void)[] = [];
  atClose.set(socket, acts);
  socket.once('close', () => {
    // Each function removes itself from the list.
    for (let next = acts[0]; next; next = acts[0]) next();
  });
  return acts;
}

/**
 * Closes the connection of a response that cannot be completed. Without a socket of its own, a destroyed response would leave the
 * connection open, and the responses behind it unsent.
 */
export function breakOff(response: ServerResponse): void {
  const isWaiting = response.socket === null;
  response.destroy();
  if (isWaiting) response.req.socket.destroy();
}
