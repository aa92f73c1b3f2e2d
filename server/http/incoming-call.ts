import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

import type { GatewayRequest } from '#gateway/exchange';
import { readBody } from './body.ts';

/** What the way to the gateway has found out about a request. */
export interface IncomingCallDetails {
  readonly id: string;
  readonly organization: string;
  readonly server: string;
  readonly maxBodyBytes: number;
  /** Where it comes from. */
  readonly address: string | undefined;
}

/** A request of `node:http` as the gateway sees it. What most calls never ask for is made when it is. */
export class IncomingCall implements GatewayRequest {
  readonly id: string;
  readonly method: string;
  readonly organization: string;
  readonly server: string;
  readonly address: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly #request: IncomingMessage;
  readonly #maxBodyBytes: number;
  #gone: AbortController | undefined;
  #hasLeft = false;

  constructor(request: IncomingMessage, response: ServerResponse, details: IncomingCallDetails) {
    this.id = details.id;
    this.method = request.method ?? '';
    this.organization = details.organization;
    this.server = details.server;
    this.address = details.address;
    this.headers = request.headers;
    this.rawHeaders = request.rawHeaders;
    this.#request = request;
    this.#maxBodyBytes = details.maxBodyBytes;
    response.on('close', () => {
      if (response.writableFinished) return;
      this.#hasLeft = true;
      this.#gone?.abort();
    });
  }

  get gone(): AbortSignal {
    if (!this.#gone) {
      this.#gone = new AbortController();
      if (this.#hasLeft) this.#gone.abort();
    }
    return this.#gone.signal;
  }

  readBody(): Promise<Buffer> {
    return readBody(this.#request, this.#maxBodyBytes);
  }
}
