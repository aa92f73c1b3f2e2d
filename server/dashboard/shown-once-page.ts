import type { Page } from '#pages/page';
import type { ShownSecret } from '#pages/secret-pieces';

/** The secret, and what is next. */
export interface ShownOnceData {
  /** What was made, as `The API key “Nightly report” is made`. */
  readonly heading: string;
  /** What to do with it, in a sentence. */
  readonly next: string;
  readonly secret: ShownSecret;
}

/** Shows a secret in the answer that makes it, and never again. */
export const shownOncePage: Page<ShownOnceData> = {
  title: ({ secret }) => `${secret.label}, shown this once`,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.heading, lead: it.next, badges: [], action: undefined }) %>
<%~ include('@secret', { secret: it.secret }) %>`,
};
