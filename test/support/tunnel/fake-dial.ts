import { readFrame, type Frame } from '#proxy/agent/frame';
import type { TunnelError } from '#proxy/agent/tunnel-error';
import type { Dial, SocketHears, TunnelSocket } from '#proxy/agent/tunnel-socket';

export type FakeSocket = TunnelSocket & {
  readonly hears: SocketHears;
  readonly sent: Frame[];
  /** How it was let go. */
  ended: number | 'terminated' | undefined;
  /** Whether the other side answers; what waits for that goes on when it does again. */
  answers(does: boolean): void;
};

/** Connections that a test holds the other end of; an error instead of a socket refuses a dial. */
export function fakeDial(): { dial: Dial; sockets: FakeSocket[]; refusals: TunnelError[] } {
  const sockets: FakeSocket[] = [];
  const refusals: TunnelError[] = [];
  return {
    sockets,
    refusals,
    async dial(hears) {
      const refusal = refusals.shift();
      if (refusal) throw refusal;
      const sent: Frame[] = [];
      let answering = Promise.withResolvers<void>();
      answering.resolve();
      const socket: FakeSocket = {
        hears,
        sent,
        ended: undefined,
        async send(frame) {
          const read = readFrame(frame);
          if (read) sent.push(read);
        },
        settled: async () => answering.promise,
        answers(does) {
          if (does) answering.resolve();
          else answering = Promise.withResolvers<void>();
        },
        close: (code) => (socket.ended ??= code),
        terminate: () => (socket.ended ??= 'terminated'),
      };
      sockets.push(socket);
      return socket;
    },
  };
}
