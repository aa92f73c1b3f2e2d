import type { UpstreamRequest } from '#server/gateway/upstream';
import type { Tunnel } from '#server/upstreams/tunnel/tunnel';
import { AgentTunnels, type AgentTunnelsOptions } from '#server/upstreams/tunnel/agent-tunnels';
import type { AdmittedAgent, AgentDirectory } from '#server/db/agent-directory';
import { turnedClock } from './turned-clock.ts';
import { head, hello, parsed, types, wireFrame, type WireFrame } from './wire-frames.ts';

/** The far end of a tunnel without a socket: what the server sent, and how it ended. */
export interface AgentByHand {
  readonly tunnel: Tunnel;
  readonly frames: WireFrame[];
  readonly pings: () => number;
  /** Whether the server joins its frames into BATCH messages. */
  readonly joins: () => boolean;
  /** The close code of the tunnel; 1006 if the server terminated it without a close frame. */
  readonly closed: () => number | undefined;
  readonly say: (...frames: Buffer[]) => void;
  /** The OPEN frames so far. */
  readonly opened: () => WireFrame[];
  /** Answers a stream with JSON. */
  readonly answer: (stream: number, text?: string, headers?: object) => void;
}

/** A server's tunnels with a clock and a directory that a test controls. */
export function handTunnels(installation: Pick<AgentTunnelsOptions, 'nodes'> = {}) {
  const clock = turnedClock();
  let nowMs = 1000;
  const standing = new Map<string, readonly string[]>();
  let written = 0;
  let asked = 0;
  const directory: AgentDirectory = {
    byKey: async () => undefined,
    activeKeys: async (keyIds) => {
      asked += 1;
      return new Map(keyIds.flatMap((id) => [[id, standing.get(id)] as const]).filter(isThere));
    },
    changeToken: () => String(written),
  };
  const tunnels = new AgentTunnels({
    ...installation,
    directory,
    clock,
    nowMs: () => nowMs,
    onError: (error) => {
      throw error;
    },
  });
  return {
    tunnels,
    clock,
    asked: () => asked,
    /** Lets time pass as the server sees it, half a second at a time. */
    pass(ms: number) {
      for (let rest = ms; rest > 0; rest -= 500) {
        nowMs += Math.min(500, rest);
        tunnels.checkTimeouts();
      }
    },
    /** Lets time pass as if the process had not been running for that long. */
    sleep(ms: number) {
      nowMs += ms;
      tunnels.checkTimeouts();
    },
    async write(keyId: string, servers: readonly string[] | undefined) {
      if (servers) standing.set(keyId, servers);
      else standing.delete(keyId);
      written += 1;
      await tunnels.checkKeys();
    },
    connect(servers: readonly string[] = ['sales'], but: ConnectOptions = {}): AgentByHand {
      const { greets = true, instance, ...rest } = but;
      const agent: AdmittedAgent = {
        id: 'agent_a',
        name: 'berlin',
        organization: 'acme',
        keyId: 'key_a',
        keyExpiresAt: undefined,
        servers,
        ...rest,
      };
      standing.set(agent.keyId, servers);
      const frames: WireFrame[] = [];
      let closed: number | undefined;
      let pings = 0;
      let joins = false;
      const leave = (code: number) => {
        closed = code;
        tunnels.remove(tunnel);
      };
      const tunnel: Tunnel = tunnels.add(agent, {
        send: (frame) => void frames.push(parsed(Buffer.from(frame))),
        joinFrames: () => {
          joins = true;
        },
        ping: () => {
          pings += 1;
        },
        close: leave,
        terminate: () => leave(1006),
      });
      const say = (...said: Buffer[]) => said.forEach((frame) => tunnel.receive(frame));
      if (greets) say(hello(servers, instance === undefined ? {} : { instance }));
      return {
        tunnel,
        frames,
        pings: () => pings,
        joins: () => joins,
        closed: () => closed,
        say,
        opened: () => frames.filter(({ type }) => type === types.open),
        answer: (stream, text = '{}', headers = {}) =>
          say(
            head(stream, headers),
            wireFrame(types.data, stream, text),
            wireFrame(types.end, stream),
          ),
      };
    },
    /** Sends one request through any tunnel of `agent_a`. */
    send(but: SendOptions = {}) {
      const { server = 'sales', caller = 'dana', headers = {}, method = 'POST', body = '{}' } = but;
      const { signal = new AbortController().signal, key } = but;
      return tunnels.upstreamOf('agent_a', server, caller).send({
        method,
        headers,
        key,
        signal,
        ...(method === 'POST' && { body: Buffer.from(body) }),
      });
    },
    [Symbol.dispose]: () => tunnels.close(),
  };
}

export interface ConnectOptions extends Partial<Omit<AdmittedAgent, 'servers'>> {
  readonly greets?: boolean;
  readonly instance?: string;
}

export interface SendOptions {
  readonly server?: string;
  readonly caller?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: 'POST' | 'GET' | 'DELETE';
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  readonly key?: UpstreamRequest['key'];
}

function isThere(
  entry: readonly [string, readonly string[] | undefined],
): entry is readonly [string, readonly string[]] {
  return entry[1] !== undefined;
}
