import type { Deliver, Upstream } from '#transport/upstream';
import type { Fault, ProxyStatus } from './proxy-status.ts';

/** The same upstream, whose requests and answers are reported to `status`. */
export function observedUpstream(
  upstream: Upstream,
  status: ProxyStatus,
  faultOf: (error: unknown) => Fault,
): Upstream {
  return {
    send(message, deliver, signal) {
      if (message.kind !== 'request') return upstream.send(message, deliver, signal);
      status.requestSent(message);
      const beganMs = performance.now();
      const take: Deliver = (answer) => {
        if (answer.kind === 'response')
          status.answerReceived(message, answer, performance.now() - beganMs);
        return deliver(answer);
      };
      return upstream.send(message, take, signal).catch((error: unknown) => {
        if (!signal.aborted)
          status.requestFailed(message, faultOf(error), performance.now() - beganMs);
        throw error;
      });
    },
    listen: async (deliver, signal) => upstream.listen(deliver, signal),
    close: async (signal) => upstream.close(signal),
  };
}
