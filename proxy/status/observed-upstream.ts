import type { Deliver, Upstream } from '#transport/upstream';
import type { Fault, ProxyStory } from './proxy-story.ts';

/** The same upstream, whose requests are noted: when, which method, how they ended. */
export function observedUpstream(
  upstream: Upstream,
  story: ProxyStory,
  faultOf: (error: unknown) => Fault,
): Upstream {
  return {
    send(message, deliver, signal) {
      if (message.kind !== 'request') return upstream.send(message, deliver, signal);
      story.asked(message);
      const beganMs = performance.now();
      const take: Deliver = (said) => {
        if (said.kind === 'response') story.answered(message, said, performance.now() - beganMs);
        return deliver(said);
      };
      return upstream.send(message, take, signal).catch((error: unknown) => {
        if (!signal.aborted) story.failed(message, faultOf(error), performance.now() - beganMs);
        throw error;
      });
    },
    listen: async (deliver, signal) => upstream.listen(deliver, signal),
    close: async (signal) => upstream.close(signal),
  };
}
