import { readHidden, type Terminal } from './read-hidden.ts';

/**
 * A new password: asked twice on a terminal, without showing it; else the first line of what is piped in.
 *
 * @throws {CommandError} when the person gives up
 */
export async function readPassword(
  terminal: Terminal,
): Promise<{ password: string; repeated: string }> {
  const prompts = ['Password: ', 'Password, again: '];
  const [password = '', repeated = ''] = await readHidden(prompts, 'password', terminal);
  return { password, repeated };
}
