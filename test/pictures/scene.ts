import type { Browser } from 'playwright-core';

import type { DashboardVisitor } from '#support/dashboard-visitor';
import type { Album } from './album.ts';
import type { FurnishedServer } from './furnished-server.ts';

export interface Stage {
  readonly furnished: FurnishedServer;
  readonly browser: Browser;
  /** An owner of `acme`, signed in. */
  readonly dana: DashboardVisitor;
  readonly album: Album;
}

/** Visits some pages and states, and takes a picture of each. */
export type Scene = (stage: Stage) => Promise<void>;
