import type { Upstream } from '#transport/upstream';

/**
 * A step of the pipeline. `on` gets the rest of the pipeline and returns the methods that the step changes. Answers come back
 * through the `deliver` that these methods pass to `next`.
 */
export type Step = {
  name: string;
  on: (next: Upstream) => Partial<Upstream>;
};

/** Chains the steps in this order before `transport`. */
export function compose(steps: readonly Step[], transport: Upstream): Upstream {
  return steps.reduceRight(before, transport);
}

function before(next: Upstream, step: Step): Upstream {
  const changed = step.on(next);
  return {
    send: changed.send?.bind(changed) ?? next.send.bind(next),
    listen: changed.listen?.bind(changed) ?? next.listen.bind(next),
    close: changed.close?.bind(changed) ?? next.close.bind(next),
  };
}
