import { emailKey } from './email.ts';

const fewestCharacters = 12;
const mostCharacters = 256;

/**
 * What is wrong with a new password, as a sentence; `undefined` when nothing is. Length counts, not the
 * kinds of characters in it. NIST SP 800-63B-4 §3.1.1.2
 */
export function passwordProblem(password: string, repeated: string, email: string) {
  const { length } = Array.from(password.normalize('NFKC'));
  if (length < fewestCharacters) return `Use at least ${fewestCharacters} characters.`;
  if (length > mostCharacters) return `Use at most ${mostCharacters} characters.`;
  if (emailKey(password) === emailKey(email)) return 'Use something else than your e-mail address.';
  if (new Set(password).size < 4) return 'Use more than three different characters.';
  if (password !== repeated) return 'The two passwords differ.';
  return undefined;
}
