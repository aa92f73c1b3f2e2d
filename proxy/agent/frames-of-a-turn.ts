import type { Duplex } from 'node:stream';

/** Holds what is written to a connection back until the end of the turn of the event loop. */
export type FramesOfATurn = {
  /** From now until the end of this turn everything is held back. */
  hold: () => void;
  /** Lets it go now. */
  release: () => void;
};

/** Frames are small and come several at a time: written one by one, each is a system call, and wakes the other end. */
export function framesOfATurn(connection: Duplex): FramesOfATurn {
  let isHeld = false;
  const release = () => {
    if (!isHeld) return;
    isHeld = false;
    connection.uncork();
  };
  return {
    hold() {
      if (isHeld) return;
      isHeld = true;
      connection.cork();
      setImmediate(release);
    },
    release,
  };
}
