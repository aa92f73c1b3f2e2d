import type { RecordingServer } from '../recording-server.ts';
import type { SlowCalls } from './slow-calls.ts';

/** A real MCP server on 127.0.0.1 that stands for a company's own. */
export interface Upstream extends RecordingServer {
  /** The stages of the calls of the tool `slow`. */
  slow: SlowCalls;
  /** Tells every client that listens that the tools changed. */
  announceTools(): Promise<void>;
}
