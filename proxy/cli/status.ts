import { connectionStatuses, type StatusPorts } from '#auth/connection-statuses';
import { connectionNames } from '#config/connection-names';
import type { ReadText } from '#config/find-entry';
import { statusJson, statusLines } from './status-lines.ts';

export type StatusInput = {
  /** All that are configured unless given. */
  target: string | undefined;
  json: boolean;
  files: readonly string[];
  /** URLs that no file names, but somebody signed in to. */
  urls: readonly string[];
};

/** `latchkey status`: how connections stand, read from this machine alone. */
export async function status(
  { target, json, files, urls }: StatusInput,
  ports: StatusPorts & { readText: ReadText },
): Promise<string[]> {
  const one = target !== undefined;
  const names = one ? [target] : await connectionNames(files, ports.readText);
  const found = await connectionStatuses(names, one ? [] : urls, one, ports);
  const statuses = found.statuses.map((each) => each.status);
  if (json) return [statusJson(statuses, found.problems)];
  return statusLines(statuses, found.problems, ports.clock.now());
}
