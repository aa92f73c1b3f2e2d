import { type Message, errorTo, messageOf } from 'latchkey-mcp/message';
import { Inbox } from './adapter-messages.ts';
import type { GiveUp } from './body-memory.ts';
import type { GatewayRefusal } from './gateway-refusal.ts';
import type { Upstream } from './upstream.ts';

/** Created once, because capturing its stack costs as much as a step of a call. */
const callEnded = new DOMException('the call was ended', 'AbortError');

/** The functions of a link that its calls use. */
export interface LegacyCallPorts {
  /** Sends a message to the upstream. */
  readonly tell: (message: Message) => void;
  /** The call is over. */
  readonly over: (call: LegacyCall) => void;
}

export interface CallOptions {
  /** Whether a caller reads the messages of the call. */
  readonly isCallers: boolean;
  /** Whether that caller can be asked. */
  readonly isAskable: boolean;
  /** Counts the messages that wait for the caller. Default in a link: the `hold` of its upstream. */
  readonly hold?: Upstream['hold'];
  /** Ends the request, because others need the memory of its messages. */
  readonly giveUp?: GiveUp | undefined;
  /** The token is the caller's own, as JSON text. */
  readonly task?: LegacyCall['task'];
}

/** A request that a legacy upstream has not answered yet. */
export class LegacyCall {
  /** The id as JSON text, which is also the progress token. */
  readonly id: string;
  /** Present if the request begins a task of the legacy era or is about one, and the caller knows such tasks. */
  readonly task: { readonly progressToken: string | undefined } | undefined;
  readonly #ended = new AbortController();
  readonly #ports: LegacyCallPorts;
  readonly #isCallers: boolean;
  readonly #isAskable: boolean;
  readonly #hold: Upstream['hold'];
  #inbox: Inbox | undefined;
  #begun: (() => void) | undefined;
  #isAnswered = false;
  #isOver = false;
  #question: Message | undefined;
  #endCaller: GiveUp | undefined;

  constructor(
    id: string,
    ports: LegacyCallPorts,
    { isCallers, isAskable, hold, giveUp, task }: CallOptions,
  ) {
    this.task = task;
    this.#endCaller = giveUp;
    this.id = id;
    this.#isCallers = isCallers;
    this.#isAskable = isAskable;
    this.#ports = ports;
    this.#hold = hold;
  }

  /**
   * The messages of the upstream for this call: progress, log messages, questions and the response. Created when first
   * needed, because most calls get nothing but a whole response.
   */
  get inbox(): Inbox {
    if (!this.#inbox) {
      this.#inbox = new Inbox({ hold: this.#hold, giveUp: (refusal) => this.giveUp(refusal) });
      if (this.#isOver) this.#inbox.end(callEnded);
    }
    return this.#inbox;
  }

  /** Whether the call is in progress and has received no message. */
  get isWaiting(): boolean {
    return !this.#isOver && !this.#inbox;
  }

  /** Calls `begun` after each message of the call. */
  whenBegun(begun: () => void): void {
    this.#begun = begun;
  }

  /** Adds a message for its caller; `false` if there is no room for it. */
  push(message: Message): boolean {
    const isTaken = this.inbox.push(message);
    if (isTaken) this.#begun?.();
    return isTaken;
  }

  /** Takes the messages that were not read. */
  rest(): Message[] {
    return this.#inbox?.rest() ?? [];
  }

  /** Aborted when the call is over before its answer has arrived completely. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether its caller gets further messages. */
  get isOpen(): boolean {
    return this.#isCallers && !this.#isAnswered && !this.#isOver;
  }

  /** Whether its caller can be asked. */
  get isAskable(): boolean {
    return this.#isAskable && this.isOpen;
  }

  /** Whether its caller was asked something, and has not responded. */
  get isAsked(): boolean {
    return this.#question !== undefined;
  }

  /** Notes the question that its caller is being asked. */
  ask(question: Message): void {
    this.#question = question;
  }

  /** The caller's response to the question; `giveUp` ends the request that it came with. */
  respond(response: Message, giveUp?: GiveUp): void {
    this.#question = undefined;
    this.#endCaller = giveUp;
    this.#ports.tell(response);
  }

  /** Takes the upstream's response, which is the last message. Later responses are ignored. */
  answer(response: Message): void {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    this.push(response);
  }

  /** Marks the call as over. The caller gets the upstream's whole answer at once, so there is nothing to cancel. */
  answered(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ports.over(this);
  }

  /** The signal of the caller's request was aborted. */
  handleEvent(): void {
    this.cancel();
  }

  /** The caller no longer waits: notifies the upstream and closes its stream. */
  cancel(): void {
    if (this.#isOver) return;
    const params = `{"requestId":${this.id},"reason":"the caller no longer waits for the answer"}`;
    this.#ports.tell(
      messageOf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
    );
    this.over();
  }

  /** Drops its messages, because others need the memory, and ends the call and its caller's request. */
  giveUp(refusal: GatewayRefusal): void {
    this.inbox.drop(refusal);
    if (this.#isAnswered) this.over();
    else this.cancel();
    this.#endCaller?.(refusal);
  }

  /** There will be no answer. */
  fail(error: unknown): void {
    this.inbox.end(error);
    this.over();
  }

  over(): void {
    if (this.#isOver) return;
    // Another call may be waiting for this response.
    const { id } = this.#question?.envelope ?? {};
    if (id !== undefined)
      this.respond(errorTo(id, -32603, 'the client did not answer the question'));
    this.#isOver = true;
    this.#ports.over(this);
    this.#ended.abort(callEnded);
    this.#inbox?.end(callEnded);
  }
}
