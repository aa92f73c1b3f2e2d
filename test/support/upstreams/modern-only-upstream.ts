import { dualUpstream } from './dual-upstream.ts';
import type { Upstream } from './upstream.ts';

/** MCP 2026-07-28 and nothing before it. */
export function modernOnlyUpstream(): Promise<Upstream> {
  return dualUpstream({ legacy: 'reject' });
}
