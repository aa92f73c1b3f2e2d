// This file is loaded before it is known which store is used, so it must stay small.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

// Commands for a POSIX shell that people paste. `file` is one word of the shell.

/** The name that the documentation proposes for the key file, in the home folder. */
const usualName = '.latchkey-key';
const usualKeyFile = `"$HOME/${usualName}"`;

/** Makes a key file, and never replaces one: with another key, all stored secrets would be lost. */
export function makeKeyCommand(file: string): string {
  return `[ -e ${file} ] || (umask 077; openssl rand -base64 48 > ${file})`;
}

function exportCommand(file: string): string {
  return `export LATCHKEY_SECRET_STORE=file LATCHKEY_SECRET_STORE_KEY_FILE=${file}`;
}

/** Both commands, for a computer without encrypted files. */
export const newKeyCommands = `${makeKeyCommand(usualKeyFile)} && ${exportCommand(usualKeyFile)}`;

/** The remedy if there is no keychain, but `directory` contains encrypted secrets; `undefined` if it contains none. */
export function filesRemedy(directory: string, home: string): string | undefined {
  try {
    if (readdirSync(directory).length === 0) return undefined;
  } catch {
    return undefined; // It does not exist, or is another user's.
  }
  const isUsual = existsSync(join(home, usualName));
  const which = isUsual ? '' : ', with the path of your key file for FILE';
  const command = exportCommand(isUsual ? usualKeyFile : 'FILE');
  return `your secrets are in encrypted files: run this command again, and add it to your shell's profile${which}: ${command}`;
}
