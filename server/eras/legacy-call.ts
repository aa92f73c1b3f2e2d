import { Inbox } from './inbox.ts';
import { messageOf, type Message } from './message.ts';

/** A request that a legacy upstream has not answered yet. */
export class LegacyCall {
  /** JSON text; also its progress token. */
  readonly id: string;
  /** Its progress, its log, its upstream's questions, its response. */
  readonly inbox = new Inbox();
  readonly #ended = new AbortController();
  readonly #tell: (message: Message) => void;

  constructor(id: string, tell: (message: Message) => void) {
    this.id = id;
    this.#tell = tell;
  }

  /** Aborted when the call is over, answered or not. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Nobody waits for it any more: the upstream is told, and its stream closed. */
  cancel(): void {
    if (this.#ended.signal.aborted) return;
    const params = `{"requestId":${this.id},"reason":"nobody waits for the answer"}`;
    this.#tell(
      messageOf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
    );
    this.over();
  }

  over(): void {
    this.#ended.abort();
    this.inbox.end(new DOMException('the call was ended', 'AbortError'));
  }
}
