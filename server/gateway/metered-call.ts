/** How a call ended, as usage counts it. */
export type CallOutcome =
  | 'ok'
  /** The MCP server answered with an error, of a tool or of the protocol. */
  | 'tool-error'
  | 'refused'
  | 'upstream-error';

/** A request that was let in, and what became of it. */
export interface MeteredCall {
  readonly serverId: string;
  readonly credential: { readonly type: 'client' | 'key' | 'person'; readonly id: string };
  /** `undefined` when it was refused before its body was read. */
  readonly method: string | undefined;
  /** As the caller wrote it: nothing says that there is such a tool. */
  readonly tool: string | undefined;
  readonly outcome: CallOutcome;
  /** From its arrival to the end of its answer. */
  readonly ms: number;
}

/** Notes calls. Called on the way of every request, so it neither waits nor throws. */
export type NoteCall = (call: MeteredCall) => void;
