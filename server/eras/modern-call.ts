import type { LegacyCall } from './legacy-call.ts';
import { messageOf, spanAt, type Message } from './message.ts';
import { modernResult } from './modern-result.ts';
import { errorTo } from './responses.ts';
import { withMembers } from './with-members.ts';

export interface ModernCallPorts {
  /** The result that puts a question of the upstream to the caller. */
  readonly ask: (question: Message) => Message;
  /** Whether the caller wants to hear the upstream's log. */
  readonly isLogged: boolean;
  /** Aborted when the caller has gone. */
  readonly signal: AbortSignal;
}

/** What is told for the sake of the older era. */
const unheard = /^notifications\/(?:elicitation\/complete|tasks\/status|cancelled|initialized)$/;

/**
 * What a legacy upstream says about one call, in the words of the modern era, until it is answered or asks
 * something: then the call goes on without this caller, who comes back with a response.
 */
export async function* modernCall(
  { envelope: { id = 'null', method = '', progressToken } }: Message,
  call: LegacyCall,
  { ask, isLogged, signal }: ModernCallPorts,
): AsyncGenerator<Message> {
  const stop = () => call.cancel();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  let isAsked = false;
  try {
    for (let said = await call.inbox.next(); said; said = await call.inbox.next()) {
      const { kind, method: what = '' } = said.envelope;
      if (kind === 'response') return yield modernResult(said, method, id);
      if (kind === 'request') {
        isAsked = true;
        return yield ask(said);
      }
      if (what === 'notifications/progress') {
        if (progressToken !== undefined) yield withToken(said, progressToken);
      } else if (what === 'notifications/message' ? isLogged : !unheard.test(what)) yield said;
    }
    yield errorTo(id, -32603, 'the MCP server ended its answer before the result');
  } finally {
    signal.removeEventListener('abort', stop);
    if (!isAsked) call.over();
  }
}

/** Progress under the caller's own token, JSON text. */
function withToken(progress: Message, progressToken: string): Message {
  const { body, envelope } = progress;
  const params = withMembers(body, spanAt(progress, 'params'), { progressToken });
  return messageOf(withMembers(body, envelope.root, { params }));
}
