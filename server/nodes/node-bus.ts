/** A message whose sender waits for an answer. */
export interface BusRequest {
  readonly data: Uint8Array;
  readonly respond: (data: Uint8Array) => void;
}

/** Carries messages between nodes. It neither stores nor repeats them, and does not authenticate their senders. */
export interface NodeBus {
  /** Called when the connection is lost. */
  onLost: () => void;
  /** Called with subjects whose last subscriber has died, if the bus can detect that. */
  onDied?: (subjects: readonly string[]) => void;
  readonly isConnected: boolean;
  /** @throws {NodeLinkError} `unreachable` while there is no connection; the message is not sent later */
  publish(subject: string, data: Uint8Array): void;
  /** Calls `receive` with every message of a subject. Returns a function that ends the subscription. */
  subscribe(subject: string, receive: (message: BusRequest) => void): () => void;
  /** Sends a message and resolves to its first answer. @throws {NodeLinkError} `gone` when nothing listens, `unreachable` */
  request(subject: string, data: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}
