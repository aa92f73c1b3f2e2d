import { readFrame, type Frame } from '#mcp/tunnel-frames';
import type { TunnelError, Dial, SocketEvents, TunnelSocket } from '#proxy/agent/tunnel';

export type FakeSocket = TunnelSocket & {
  readonly events: SocketEvents;
  readonly sent: Frame[];
  /** How it was closed. */
  ended: number | 'terminated' | undefined;
  /** Whether it may send BATCH. */
  joins: boolean;
  /** Sets whether the server answers pings. `settled` waits until it does. */
  answers(does: boolean): void;
};

/** Connections whose other end is the test. Each of `refusals` fails one attempt to connect. */
export function fakeDial(): { dial: Dial; sockets: FakeSocket[]; refusals: TunnelError[] } {
  const sockets: FakeSocket[] = [];
  const refusals: TunnelError[] = [];
  return {
    sockets,
    refusals,
    async dial(events) {
      const refusal = refusals.shift();
      if (refusal) throw refusal;
      const sent: Frame[] = [];
      let answering = Promise.withResolvers<void>();
      answering.resolve();
      const socket: FakeSocket = {
        events,
        sent,
        ended: undefined,
        joins: false,
        async send(frame) {
          const read = readFrame(frame);
          if (read) sent.push(read);
        },
        joinFrames: () => (socket.joins = true),
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
