/** The agent's key, and whether another has taken its place. */
export interface KeyInUse {
  /** The key as it is now, for a dial. @throws {TunnelError} */
  read: () => Promise<string>;

  /** Whether another lies there than the last dial took. @throws {TunnelError} */
  hasMoved: () => Promise<boolean>;
}

export function keyInUse(readKeySecret: () => Promise<string>): KeyInUse {
  let dialledSecret: string | undefined;
  return {
    async read() {
      dialledSecret = await readKeySecret();
      return dialledSecret;
    },
    hasMoved: async () => (await readKeySecret()) !== dialledSecret,
  };
}
