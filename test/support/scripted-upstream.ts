import { readMessage, type Message } from '#mcp/raw-message';
import type { Deliver, Upstream } from '#proxy/transport/upstream';

export type Said = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message?: string; data?: unknown };
};

/**
 * The messages with which the server answers `asked`: objects, or JSON texts where the bytes matter.
 * `say` sends a message before the script is done.
 */
export type Script = (
  asked: Said,
  signal: AbortSignal,
  say: (said: Said | string) => Promise<void>,
) => readonly (Said | string)[] | Promise<readonly (Said | string)[]>;

export type ScriptedUpstream = Upstream & {
  asked: Said[];
  texts: string[];
  closed: () => boolean;
};

/** An `Upstream` of the proxy that answers by a script and records what it was asked. */
export function scriptedUpstream(script: Script): ScriptedUpstream {
  const asked: Said[] = [];
  const texts: string[] = [];
  let closed = false;
  return {
    asked,
    texts,
    closed: () => closed,
    async send(message, deliver, signal) {
      const said: Said = JSON.parse(String(message.bytes));
      asked.push(said);
      texts.push(String(message.bytes));
      const say = async (answer: Said | string) => deliver(asMessage(answer));
      for (const answer of await script(said, signal, say)) await say(answer);
    },
    listen: () => Promise.resolve(),
    close() {
      closed = true;
      return Promise.resolve();
    },
  };
}

export function asMessage(said: Said | string): Message {
  return readMessage(Buffer.from(typeof said === 'string' ? said : JSON.stringify(said)));
}

/** Records the delivered messages: parsed in `said`, as they came in `texts`. */
export function listener(): { said: Said[]; texts: string[]; deliver: Deliver } {
  const said: Said[] = [];
  const texts: string[] = [];
  const deliver: Deliver = (message) => {
    said.push(JSON.parse(String(message.bytes)));
    texts.push(String(message.bytes));
    return Promise.resolve();
  };
  return { said, texts, deliver };
}
