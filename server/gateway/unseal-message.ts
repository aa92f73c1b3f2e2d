import { GatewayRefusal } from './gateway-refusal.ts';
import { scanMessage, type Envelope } from './json-scan.ts';
import { ownedValues } from './owned-values.ts';
import type { PrincipalSeal } from './principal-seal.ts';
import { replaced } from './splice.ts';

interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/**
 * A caller's message with the upstream's own words in the place of what was sealed for this caller. What
 * was sealed for somebody else, or by nobody, is refused like a task that does not exist.
 *
 * @throws {GatewayRefusal} `not_theirs`
 */
export function unsealMessage({ body, envelope }: Message, seal: PrincipalSeal): Message {
  const { taskId, requestState, meta, kind } = envelope;
  const mayHold = taskId !== undefined || requestState || meta || kind === 'response';
  if (!mayHold) return { body, envelope };
  if (requestState && body[requestState.start] !== 0x22) throw notTheirs('state');
  const edits = ownedValues(body, envelope, 'caller').flatMap((owned) => {
    const value = seal.open(owned.kind, owned.value);
    if (value !== undefined) return { span: owned.span, text: JSON.stringify(value) };
    // A response or notification may be about a task that the caller itself keeps.
    if (owned.isMention && kind !== 'request') return [];
    throw notTheirs(owned.kind);
  });
  if (edits.length === 0) return { body, envelope };
  const unsealed = replaced(body, edits);
  const scan = scanMessage(unsealed);
  if (scan.outcome === 'refused') throw new GatewayRefusal('not_a_message');
  return { body: unsealed, envelope: scan.envelope };
}

function notTheirs(kind: 'task' | 'state'): GatewayRefusal {
  return new GatewayRefusal('not_theirs', { detail: kind === 'task' ? 'task' : 'requestState' });
}
