import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import type { Clock } from '#clock/clock';
import { idKey, textAt, type Message } from 'latchkey-mcp/raw-message';

/** At either limit, reading stops after the message that reached it. */
const maxMessages = 1_024;
const maxBytes = 16 * 1024 * 1024;

/** If nothing finishes for this long, the assistant may want to cancel requests. */
const stallMs = 30_000;

/**
 * Counts the assistant's messages that have been read and are not finished. Reading pauses while there are too many, so that a
 * flood fills the assistant's pipe and not our memory. Reading continues in two cases: if the server waits for answers to its own
 * requests, because the open requests may depend on them, and if nothing has finished for half a minute, because the assistant
 * may want to cancel. Other messages that are read in these cases are refused.
 */
export function backlog(clock: Clock) {
  const requests = new Set<string>();
  let messages = 0;
  let bytes = 0;
  let finished = 0;
  let stalledAt: number | undefined;
  let wake = () => {};

  const isFull = () => messages >= maxMessages || bytes >= maxBytes;

  async function change(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const woken = new Promise<void>((resolve) => (wake = resolve));
    await Promise.race([woken, clock.sleep(stallMs, AbortSignal.any([signal, over.signal]))]);
    over.abort();
  }

  return {
    /** Counts a message of `length` bytes until the returned function is called. */
    add(length: number): () => void {
      messages += 1;
      bytes += length;
      return () => {
        messages -= 1;
        bytes -= length;
        finished += 1;
        if (!isFull()) wake();
      };
    },
    /** Records the server's requests and their cancellations. */
    received(message: Message): void {
      if (message.kind === 'request') requests.add(idKey(message.id ?? 'null'));
      else if (message.method === 'notifications/cancelled')
        requests.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
      if (requests.size > 0) wake();
    },
    /** Records that the assistant has answered the server's request with this id. */
    answered: (id: string) => void requests.delete(idKey(id)),
    /** Whether one of the limits is reached. */
    isFull,
    /** Resolves when more may be read, or `signal` aborts. */
    async whenReadable(signal: AbortSignal): Promise<void> {
      while (isFull() && requests.size === 0 && finished !== stalledAt && !signal.aborted) {
        const before = finished;
        await change(signal);
        if (finished === before) stalledAt = before;
      }
    },
  };
}

const maxYoungBytes = 16 * 1024 * 1024;
const messagesBetweenChecks = 128;

/**
 * Keeps V8 from growing the memory for short-lived objects. Under load V8 doubles that memory repeatedly, up to 134 MB,
 * although 16 MB are collected just as fast. Node accepts `--max-semi-space-size` only when it starts, and starting a second
 * Node would take as long as starting the proxy. Call the returned function for each message; it checks every 128 messages.
 */
export function youngGenerationLimit(): () => void {
  let messages = 0;
  let isLimited = false;
  return () => {
    messages += 1;
    if (messages % messagesBetweenChecks !== 0) return;
    const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
    // V8 shrinks the space while there is little to do, and must be free to grow it again.
    const isLarge = space !== undefined && space.space_size >= maxYoungBytes;
    if (isLarge === isLimited) return;
    isLimited = isLarge;
    setFlagsFromString(`--semi-space-growth-factor=${isLarge ? 1 : 2}`);
  };
}
