import type { Connection } from '#config/connection';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import { explain, troubleOf } from '#errors';
import type { Host, UserHost } from '#host';
import type { Log } from '#log/log';
import {
  statusReporter,
  type StatusReporter,
  type StatusReporterOptions,
} from '#status/status-reporter';

export type PresencePorts = Pick<Host, keyof UserHost | 'pid' | 'clock'>;

/** Reports the status of the proxy of `connection` to other programs of this user. */
export function openPresence(
  connection: Connection,
  options: Options,
  {
    signInService,
    token,
    worked,
  }: Pick<StatusReporterOptions, 'signInService' | 'token' | 'worked'>,
  ports: PresencePorts,
  log: Log,
): StatusReporter {
  const { clock, platform, pid } = ports;
  return statusReporter({
    connection,
    version: async () => {
      const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
      return manifest.version;
    },
    stateDirectory: options.stateDir ?? defaultStateDirectory(ports),
    platform,
    pid,
    clock,
    log,
    signInService,
    token,
    ...(worked && { worked }),
    faultOf(error) {
      const reason = explain(error, connection).failure.message;
      const trouble = troubleOf(error, 'auto');
      if (trouble === undefined) return { state: 'trouble', reason };
      return { state: trouble === 'offline' ? 'offline' : 'needs_sign_in', reason };
    },
  });
}
