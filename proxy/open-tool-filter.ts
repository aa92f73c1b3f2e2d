import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Log } from '#log/log';
import { toolFilter } from '#pipeline/tool-filter';
import type { Upstream } from '#transport/upstream';
import { openAcceptedTools } from './open-accepted-tools.ts';
import type { Host, UserHost } from '#host';

/** `upstream` without what the connection keeps back; next to the assistant, so that nothing slips by. */
export function openToolFilter(
  upstream: Upstream,
  connection: Connection,
  options: Options,
  host: Pick<Host, keyof UserHost | 'clock'>,
  log: Log,
): Upstream {
  const { name, url, configFile, allowTools, denyTools, changedTools = 'flag' } = connection;
  return toolFilter(upstream, {
    rules: { ...(allowTools && { allow: allowTools }), ...(denyTools && { deny: denyTools }) },
    changed: changedTools,
    store: openAcceptedTools(url, options, host),
    remedy: `latchkey tools ${name}${configFile === undefined ? '' : ` --config ${configFile}`}`,
    clock: host.clock,
    log,
  });
}
