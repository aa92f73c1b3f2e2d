// The user that a program runs as, for errors about permissions: commands often run as a service's user, not as the person who types them.

import { platform, userInfo } from 'node:os';

/** The user that a program runs as, `undefined` if that user has no name, and the platform. */
export interface RunningUser {
  readonly name: string | undefined;
  readonly platform: NodeJS.Platform;
}

export function runningUser(): RunningUser {
  return { name: userName(), platform: platform() };
}

/** A container can run as a user without a name. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

/** `this command runs as the user latchkey, who may not read it` */
export function mayNot(what: string, { name }: Pick<RunningUser, 'name'> = runningUser()): string {
  const who = name === undefined ? 'a user who' : `the user ${name}, who`;
  return `this command runs as ${who} may not ${what}`;
}

/** Whether an error of the file system says that this user may not do something. */
export function isPermissionFault(error: unknown): boolean {
  return codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM';
}

/** Whether an error of the file system says that something is not there. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** What to do if the data of a server is closed to the user of a command. */
export const asServerUser = 'run it as the user of the server, for example with sudo -u latchkey';
