import type { Upstream } from '#transport/upstream';

/**
 * A step of the pipeline. `on` gets the rest of the way to the server and returns the methods in which the step does
 * more than pass on; answers come back through the `deliver` that it hands to `next`.
 */
export type Step = {
  name: string;
  on: (next: Upstream) => Partial<Upstream>;
};

/** What messages pass through, in that order, until they are sent with `transport`. */
export function compose(steps: readonly Step[], transport: Upstream): Upstream {
  return steps.reduceRight(before, transport);
}

function before(next: Upstream, step: Step): Upstream {
  return { ...next, ...step.on(next) };
}
