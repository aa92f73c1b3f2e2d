import { connect, type Socket } from 'node:net';
import { numberHere, type Shot } from './shot.ts';

/** How long an answer may take before it counts as missing. */
const patienceMs = 20_000;
const numbers = 4096;
const chunkedEnd = '0\r\n\r\n';

export interface Load {
  readonly calls: number;
  readonly seconds: number;
  readonly perSecond: number;
  /** Each call's answer time. */
  readonly times: readonly number[];
}

/** Called when all connections are warm, and again when the last answer has arrived. */
export type Meter = () => void;

/**
 * Sends `shot` over `connections`, one call at a time on each, for `seconds` or until `calls` were sent. It writes to sockets itself,
 * because an HTTP client would take more of the machine than the measured program.
 *
 * @throws {Error} when any answer was not 2xx, belonged to another call, or did not come: a fast refusal is no throughput
 */
export async function socketLoad(
  shot: Shot,
  connections: number,
  { seconds = Infinity, calls = Infinity, meter = () => {} }: LoadOptions,
): Promise<Load> {
  const { fresh } = shot;
  const made = fresh ? [] : requestsOf(shot);
  const lanes = await Promise.all(
    Array.from({ length: connections }, () => Lane.open(new URL(shot.url))),
  );
  let at = 0;
  const one = async (lane: Lane): Promise<void> => {
    at = (at + 1) % numbers;
    const { text, wanted } = fresh
      ? { text: textOf(shot, fresh()), wanted: '' }
      : (made[at] ?? { text: '', wanted: '' });
    await lane.call(text, shot.wanted ?? '', wanted);
  };
  try {
    // The first call of a connection is dearer than the others.
    await Promise.all(lanes.map(one));
    meter();
    const times: number[] = [];
    const startedAt = performance.now();
    let begun = 0;
    const during = async (lane: Lane) => {
      for (let now = startedAt; now - startedAt < seconds * 1000 && begun < calls;) {
        begun += 1;
        await one(lane);
        const sentAt = now;
        now = performance.now();
        times.push(now - sentAt);
      }
    };
    await Promise.all(lanes.map(during));
    const took = (performance.now() - startedAt) / 1000;
    meter();
    return { calls: times.length, seconds: took, perSecond: times.length / took, times };
  } finally {
    for (const lane of lanes) lane.close();
  }
}

export interface LoadOptions {
  readonly seconds?: number;
  readonly calls?: number;
  readonly meter?: Meter;
}

/** Each request is made once: making one costs the same for every contender. */
function requestsOf(shot: Shot): { text: string; wanted: string }[] {
  const { body } = shot;
  const numbered = body.includes(numberHere);
  return Array.from({ length: numbers }, (_, at) => ({
    text: textOf(shot, body.replace(numberHere, String(at + 1))),
    wanted: numbered ? `"id":${at + 1}` : '',
  }));
}

function textOf({ url, headers }: Shot, body: string): string {
  const { host, pathname } = new URL(url);
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  const head = [`POST ${pathname} HTTP/1.1`, ...lines, `content-length: ${body.length}`, '', ''];
  return head.join('\r\n') + body;
}

/** One kept-alive connection with one call at a time. */
class Lane {
  readonly #socket: Socket;
  #answer = '';
  #bodyAt = -1;
  #length = -1;
  #done: ((answer: string) => void) | undefined;
  #failed: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true).setTimeout(patienceMs, () => socket.destroy());
    socket.setEncoding('latin1').on('data', (part: string) => this.#read(part));
    const gone = (why: unknown) => this.#failed?.(new Error(`no answer: ${String(why)}`));
    socket.on('error', gone).on('close', () => gone(`closed after '${this.#answer}'`));
  }

  static async open({ hostname, port }: URL): Promise<Lane> {
    const socket = connect({ host: hostname, port: Number(port) });
    const lane = new Lane(socket);
    await new Promise<void>((resolve, reject) => {
      lane.#failed = reject;
      socket.once('connect', resolve);
    });
    return lane;
  }

  /** Resolves when the answer is complete, if it is 2xx and contains all of `wanted`; rejects otherwise. */
  call(request: string, ...wanted: readonly string[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#failed = reject;
      this.#done = (answer) => {
        const fits = answer.startsWith('HTTP/1.1 2') && wanted.every((one) => answer.includes(one));
        if (fits) resolve();
        else reject(new Error(`wanted ${wanted.join(' ')}, but: ${answer.slice(0, 1000)}`));
      };
      this.#socket.write(request, 'latin1');
    });
  }

  close(): void {
    this.#failed = undefined;
    this.#socket.destroy();
  }

  #read(part: string): void {
    this.#answer += part;
    const answer = this.#answer;
    if (this.#bodyAt === -1) {
      const end = answer.indexOf('\r\n\r\n');
      if (end === -1) return;
      this.#bodyAt = end + 4;
      const length = /\r\ncontent-length: *(\d+)/i.exec(answer.slice(0, end + 2))?.[1];
      this.#length = length === undefined ? -1 : Number(length);
    }
    const has = answer.length - this.#bodyAt;
    if (this.#length === -1 ? !answer.endsWith(chunkedEnd) : has < this.#length) return;
    this.#answer = '';
    this.#bodyAt = -1;
    this.#done?.(answer);
  }
}
