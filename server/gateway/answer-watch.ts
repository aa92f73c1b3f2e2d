import { z } from 'zod';

import { scanMessage } from './json-scan.ts';
import { SseEvents } from './sse-events.ts';

const maxBytes = 64 * 1024;
const eventStream = 'text/event-stream';
const marks = ['"isError"', '"error"'];

const answerSchema = z.object({
  error: z.unknown().optional(),
  result: z.object({ isError: z.unknown().optional() }).optional().catch(undefined),
});

/**
 * Looks at an answer as it passes, and says at its end whether it was an error, of a tool or of the
 * protocol. Only an answer that holds the words for it is read; a longer one than 64 KiB is none, as
 * errors are short.
 *
 * JSON-RPC 2.0 §5.1; MCP 2025-11-25 tools, "Error Handling"
 */
export class AnswerWatch {
  readonly #isStream: boolean;
  #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(mediaType: string | undefined) {
    this.#isStream = mediaType === eventStream;
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= maxBytes) this.#chunks.push(chunk);
    else this.#chunks = [];
  }

  isError(): boolean {
    const [only] = this.#chunks;
    if (!only || this.#bytes > maxBytes) return false;
    const body =
      this.#chunks.length === 1
        ? Buffer.from(only.buffer, only.byteOffset, only.byteLength)
        : Buffer.concat(this.#chunks);
    if (!marks.some((mark) => body.includes(mark))) return false;
    if (!this.#isStream) return isErrorAnswer(body);
    const events = [...new SseEvents({ maxBytes }).push(body)];
    return events.some(({ data }) => isErrorAnswer(data));
  }
}

function isErrorAnswer(message: Uint8Array): boolean {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') return false;
  const { data } = answerSchema.safeParse(JSON.parse(Buffer.from(message).toString('utf8')));
  return data !== undefined && (data.error !== undefined || data.result?.isError === true);
}
