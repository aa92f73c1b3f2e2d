import { TunnelRefusal, type TunnelRefusalCode } from '#tunnel/tunnel-refusal';
import { errorAnswer, type ErrorAnswer } from './error-answer.ts';
import { oauthErrorAnswer } from './oauth-error-answer.ts';

/** What an agent is told that is not let in. `docs/tunnel.md` */
export function agentErrorAnswer(error: unknown): ErrorAnswer {
  return error instanceof TunnelRefusal ? tunnelRefusal(error.code) : oauthErrorAnswer(error);
}

function tunnelRefusal(code: TunnelRefusalCode): ErrorAnswer {
  switch (code) {
    case 'browser':
      return errorAnswer(403, 'forbidden', 'this is for agents, and no page may open it');
    case 'no_upgrade':
      return errorAnswer(426, 'invalid_request', 'this is a WebSocket', {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
      });
    case 'bad_subprotocol':
      return errorAnswer(400, 'invalid_request', 'Sec-WebSocket-Protocol must be latchkey-agent-1');
    case 'full':
      return errorAnswer(503, 'temporarily_unavailable', 'there is no room for this tunnel now', {
        'Retry-After': '5',
      });
  }
}
