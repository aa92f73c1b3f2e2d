import type { Scope } from '#credentials/scope';
import type { Upstream } from '#gateway/upstream';

/** Who asks, and where. */
export interface Asker {
  readonly upstream: Upstream;
  /** Whom sessions belong to: a principal at a server. */
  readonly owner: string;
  readonly scopes: readonly Scope[];
  /** Another text wherever `upstream` may lead elsewhere, or say something else of who asks. */
  readonly way: string;
}
