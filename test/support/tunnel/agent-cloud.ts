import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as after } from 'node:timers/promises';
import { WebSocketServer, type WebSocket } from 'ws';
import { creditFrame, frameType, jsonFrame, readFrame, writeFrame } from '#mcp/tunnel-frames';
import { listen } from '../loopback.ts';

export type CloudAnswer = {
  status?: number;
  headers: Record<string, string>;
  body: AsyncIterable<Buffer>;
  reset?: { code: string; detail: string };
};

type Stream = {
  got: (type: number, payload: Buffer) => void;
  end: (why: string) => void;
};

export type CloudRequest = {
  server: string;
  method?: 'POST' | 'GET' | 'DELETE';
  headers?: Record<string, string>;
  body?: Buffer;
  caller?: string;
  signal?: AbortSignal;
  /** Gives no credit, so that at most one window of bytes arrives. */
  stingy?: boolean;
};

/** One tunnel as the server sees it. */
export class CloudTunnel {
  readonly socket: WebSocket;
  readonly hellos: {
    version: string;
    instance: string;
    servers: { name: string; kind: string }[];
  }[] = [];
  readonly #streams = new Map<number, Stream>();
  readonly closed: Promise<number>;
  #lastId = 0;

  constructor(socket: WebSocket) {
    this.socket = socket;
    this.closed = once(socket, 'close').then(([code]: number[]) => code ?? 0);
    socket.on('message', (data) => {
      const frame = readFrame(Buffer.isBuffer(data) ? data : Buffer.alloc(0));
      if (!frame) return;
      const { type, stream, payload } = frame;
      if (type === frameType.hello) this.hellos.push(JSON.parse(payload.toString()));
      else this.#streams.get(stream)?.got(type, payload);
    });
    void this.closed.then(() => {
      for (const stream of this.#streams.values()) stream.end('the tunnel broke');
    });
  }

  bind(...servers: string[]): void {
    const bound = { organization: 'acme', agent: 'berlin', servers };
    this.socket.send(jsonFrame(frameType.bound, 0, bound));
  }

  drain(): void {
    this.socket.send(writeFrame(frameType.drain, 0));
  }

  /** Resolves with the head; without one, there is no status, and the body throws the reason. */
  async send(request: CloudRequest): Promise<CloudAnswer> {
    const {
      server,
      method = 'POST',
      headers = {},
      body,
      caller = 'dana',
      signal,
      stingy,
    } = request;
    const id = (this.#lastId += 1);
    const head = Promise.withResolvers<CloudAnswer>();
    const chunks: Buffer[] = [];
    let over = false;
    let failure: string | undefined;
    let news = Promise.withResolvers<void>();
    const { socket } = this;
    async function* reading(): AsyncGenerator<Buffer> {
      for (;;) {
        const chunk = chunks.shift();
        if (chunk) {
          yield chunk;
          if (!stingy) socket.send(creditFrame(id, chunk.length));
        } else if (failure) throw new Error(failure);
        else if (over) return;
        else {
          news = Promise.withResolvers<void>();
          await news.promise;
        }
      }
    }
    const end = (why: string) => {
      this.#streams.delete(id);
      failure ??= why;
      over = true;
      head.resolve({ headers: {}, body: reading() });
      news.resolve();
    };
    this.#streams.set(id, {
      end,
      got: (type, payload) => {
        if (type === frameType.head) {
          const { status, headers: said } = JSON.parse(payload.toString());
          head.resolve({ status, headers: said, body: reading() });
        } else if (type === frameType.data) chunks.push(payload);
        else if (type === frameType.end) over = true;
        else if (type === frameType.reset) {
          const reset: { code: string; detail: string } = JSON.parse(payload.toString());
          failure = `${reset.code}: ${reset.detail}`;
          head.resolve({ headers: {}, body: reading(), reset });
        }
        news.resolve();
      },
    });
    signal?.addEventListener('abort', () => {
      socket.send(jsonFrame(frameType.reset, id, { code: 'cancelled', detail: '' }));
      end('cancelled');
    });
    socket.send(jsonFrame(frameType.open, id, { server, method, headers, caller }));
    const bytes = body ?? Buffer.alloc(0);
    for (let at = 0; at < bytes.length; at += 65_536)
      socket.send(writeFrame(frameType.data, id, bytes.subarray(at, at + 65_536)));
    socket.send(writeFrame(frameType.end, id));
    return head.promise;
  }
}

export interface AgentCloud extends AsyncDisposable {
  readonly base: string;
  readonly keys: (string | undefined)[];
  /** The status with which the next dials are refused. */
  refuse: number | undefined;
  /** The server names in the BOUND that answers a HELLO. */
  bound: string[];
  /** The `count`th tunnel that was opened, once its agent has sent HELLO. */
  tunnel(count: number): Promise<CloudTunnel>;
  readonly tunnels: readonly CloudTunnel[];
}

/** The server's end of the tunnel, as far as an agent can tell. `docs/tunnel.md` */
export async function agentCloud(): Promise<AgentCloud> {
  const tunnels: CloudTunnel[] = [];
  const keys: (string | undefined)[] = [];
  const http = createServer((_, response) => void response.writeHead(404).end());
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: () => 'latchkey-agent-1',
    perMessageDeflate: false,
  });
  http.on('upgrade', (request, socket, head) => {
    // Node's own listener is gone by now. A refused agent may reset its connection before it has read the answer.
    socket.on('error', () => undefined);
    const key = request.headers['x-api-key'];
    keys.push(typeof key === 'string' ? key : undefined);
    if (cloud.refuse !== undefined)
      return void socket.end(`HTTP/1.1 ${cloud.refuse} No\r\ncontent-length: 0\r\n\r\n`);
    sockets.handleUpgrade(request, socket, head, (opened) => {
      const made = new CloudTunnel(opened);
      tunnels.push(made);
      opened.once('message', () => made.bind(...cloud.bound));
      const pinging = setInterval(() => opened.ping(), 2_000);
      opened.on('close', () => clearInterval(pinging));
    });
  });
  const port = await listen(http);
  const cloud: AgentCloud = {
    base: `http://127.0.0.1:${port}`,
    keys,
    refuse: undefined,
    bound: [],
    tunnels,
    async tunnel(count) {
      for (let turn = 0; turn < 1_500; turn += 1) {
        const found = tunnels[count - 1];
        if (found && found.hellos.length > 0) return found;
        await after(20);
      }
      throw new Error(`no tunnel ${count} within 30 s`);
    },
    async [Symbol.asyncDispose]() {
      for (const { socket } of tunnels) socket.terminate();
      sockets.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return cloud;
}
