/**
 * `env` for a program that we start and that is not ours, such as a browser: without our own variables,
 * which may hold client secrets, API keys and passphrases. Windows does not tell capitals from small letters.
 */
export function helperEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  const others = Object.entries(env).filter(([name]) => !/^latchkey_/i.test(name));
  return Object.fromEntries(others);
}
