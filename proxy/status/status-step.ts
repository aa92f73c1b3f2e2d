import type { Step } from '#pipeline/step';
import type { Deliver } from '#transport/upstream';
import type { Fault, ProxyStatus } from './proxy-status.ts';

/** Reports requests and their answers to `status`. */
export function statusStep(status: ProxyStatus, faultOf: (error: unknown) => Fault): Step {
  return {
    name: 'status',
    on: (next) => ({
      send(message, deliver, signal) {
        if (message.kind !== 'request') return next.send(message, deliver, signal);
        status.requestSent(message);
        const beganMs = performance.now();
        const take: Deliver = (answer) => {
          if (answer.kind === 'response')
            status.answerReceived(message, answer, performance.now() - beganMs);
          return deliver(answer);
        };
        return next.send(message, take, signal).catch((error: unknown) => {
          if (!signal.aborted)
            status.requestFailed(message, faultOf(error), performance.now() - beganMs);
          throw error;
        });
      },
    }),
  };
}
