import type { EndSignal } from '#model/ending';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

import type { Departure, GatewayRequest } from '#gateway/request';
import { readBody } from './body.ts';
import { whenClosed } from './closed-response.ts';

/** The details of a request that are known before the gateway gets it. */
export interface IncomingCallDetails {
  readonly id: string;
  readonly organization: string;
  readonly server: string;
  readonly maxBodyBytes: number;
  /** The caller's address. */
  readonly address: string | undefined;
  /** Called when the answer has ended, whether or not all of it was sent. */
  closed?(): void;
}

/** Reports that a response was closed before its end. */
class LostConnection implements Departure {
  #listeners: (() => void)[] | undefined;
  aborted = false;

  addEventListener(_: 'abort', listener: () => void): void {
    if (this.aborted) return;
    this.#listeners ??= [];
    this.#listeners.push(listener);
  }

  tell(): void {
    this.aborted = true;
    for (const listener of this.#listeners ?? []) listener();
  }
}

/** A request of `node:http` as the gateway sees it. */
export class IncomingCall implements GatewayRequest {
  readonly id: string;
  readonly method: string;
  readonly organization: string;
  readonly server: string;
  readonly address: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly gone: Departure;
  readonly #request: IncomingMessage;
  readonly #maxBodyBytes: number;

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
    const gone = new LostConnection();
    this.gone = gone;
    if (response.destroyed) gone.tell();
    whenClosed(response, () => {
      details.closed?.();
      if (!response.writableFinished) gone.tell();
    });
  }

  readBody(arrived?: (bytes: number) => void, signal?: EndSignal): Buffer | Promise<Buffer> {
    return readBody(this.#request, this.#maxBodyBytes, arrived, signal);
  }
}
