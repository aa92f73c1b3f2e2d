import type { Admission } from './admission.ts';
import type { GatewayRequest } from './exchange.ts';
import type { Envelope } from './json-scan.ts';
import type { PrincipalSeal } from './principal-seal.ts';
import type { Upstream } from './upstream.ts';

/** A request that was let in, on its way to its upstream. */
export interface Call {
  readonly request: GatewayRequest;
  readonly admission: Admission;
  readonly upstream: Upstream;
  /** Ends the call and its answer: the caller cancelled, the credential is gone, the server stops. */
  readonly ending: AbortController;
  /** Whom upstream sessions, links and cancellations belong to: a principal and a server. */
  readonly owner: string;
  /** Binds to this owner what the upstream hands out. */
  readonly seal: PrincipalSeal;
  /** Says that the answer has no end of its own. */
  readonly endless: () => void;
  /** Run when the answer has been sent to its end, or given up. */
  readonly afterwards: (() => void)[];
}

/** A call whose body has been read, understood and allowed. */
export interface MessageCall extends Call {
  readonly body: Buffer;
  readonly envelope: Envelope;
}
