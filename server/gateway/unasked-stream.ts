import type { EndSignal } from '#model/ending';
import type { Message } from 'latchkey-mcp/message';
import { messagesLetGo } from './adapter-messages.ts';
import { discardAnswer } from './answers.ts';
import { ReopenPauses } from './live-stream.ts';
import { isEventStream, type UpstreamAnswer } from './upstream.ts';

interface UnaskedStreamPorts {
  readonly take: (message: Message) => void;
  /** The stream is open again after it broke off. */
  readonly reopened: () => void;
  /** There is no stream, or it has ended for good. */
  readonly over: () => void;
  readonly signal: EndSignal;
}

/**
 * Reads the messages that a legacy upstream sends on its own until `signal` aborts; a broken stream is reopened by
 * `send`. Resolves once it is known whether there is such a stream.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server"
 */
export function unaskedStream(
  send: () => Promise<UpstreamAnswer>,
  { take, reopened, over, signal }: UnaskedStreamPorts,
): Promise<boolean> {
  const begun = Promise.withResolvers<boolean>();
  const follow = async () => {
    const pauses = new ReopenPauses();
    let isThere = false;
    while (!signal.aborted) {
      try {
        const answer = await send();
        if (!isEventStream(answer)) {
          await discardAnswer(answer);
          break;
        }
        if (isThere) reopened();
        isThere = true;
        pauses.opened();
        begun.resolve(true);
        for await (const message of messagesLetGo(answer)) take(message);
      } catch {
        // The stream broke off. It is reopened after a pause, unless `signal` has aborted.
      }
      await pauses.pause(signal);
    }
    begun.resolve(false);
    over();
  };
  void follow();
  return begun.promise;
}
