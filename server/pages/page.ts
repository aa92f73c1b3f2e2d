import type { DashboardFrame } from './dashboard-frame.ts';

/** One page: an eta template in which `it` holds the data of the page, and `it.frame` what surrounds it. */
export interface Page<Data extends object> {
  /** What the browser's tab and the history call it. */
  readonly title: (data: Data) => string;
  /** Forms are 480 px wide, texts 640, tables up to 1200. */
  readonly width: 'form' | 'text' | 'table';
  readonly template: string;
}

/** What surrounds every page, whoever looks at it. */
export interface Frame {
  readonly requestId: string;
  /** Paths of ES modules of ours; a page works without them. */
  readonly scripts: readonly string[];
  /** Goes into every form that changes something: `<%~ include('@guard', it.frame) %>`. */
  readonly csrfToken: string | undefined;
  /** Who is signed in. */
  readonly email: string | undefined;
  /** Where in the dashboard the page is, if there. */
  readonly dashboard?: DashboardFrame | undefined;
}

/** What was wrong with a field of a form. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}
