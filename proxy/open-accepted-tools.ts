import { join } from 'node:path';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import {
  type AcceptedToolStore,
  fileAcceptedTools,
  memoryAcceptedTools,
} from '#pipeline/accepted-tools';

/** Where this machine keeps what was accepted of the tools at `url`. */
export function openAcceptedTools(
  url: string,
  options: Options,
  host: UserHost,
): AcceptedToolStore {
  if (options.secretStore === 'memory') return memoryAcceptedTools();
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  return fileAcceptedTools(join(stateDirectory, 'tools'), url);
}
