import { GatewayRefusal } from './gateway-refusal.ts';
import { scanMessage, type Envelope } from './json-scan.ts';
import { ownedValues, type OwnedValue } from './owned-values.ts';
import type { PrincipalSeal } from './principal-seal.ts';
import { replaced } from './splice.ts';

interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/**
 * A caller's message with the upstream's own words in the place of what was sealed for this caller. What
 * was sealed for somebody else, or by nobody, is refused like a task that does not exist. The id of a task that the
 * caller keeps itself is sealed on its way, so that it can never be that of a task of the upstream's.
 *
 * @throws {GatewayRefusal} `not_theirs`, `bad_params`
 */
export function unsealMessage({ body, envelope }: Message, seal: PrincipalSeal): Message {
  const { taskId, requestState, meta, kind } = envelope;
  const mayHold = taskId !== undefined || requestState || meta || kind === 'response';
  if (!mayHold) return { body, envelope };
  if (requestState && body[requestState.start] !== 0x22) throw notTheirs('state');
  const edits = ownedValues(body, envelope, 'caller').map((owned) => ({
    span: owned.span,
    text: JSON.stringify(unsealed(owned, seal)),
  }));
  if (edits.length === 0) return { body, envelope };
  const changed = replaced(body, edits);
  const scan = scanMessage(changed);
  if (scan.outcome === 'refused') throw new GatewayRefusal('not_a_message');
  return { body: changed, envelope: scan.envelope };
}

function unsealed({ kind, value, keeper }: OwnedValue, seal: PrincipalSeal): string {
  if (value === undefined) {
    throw new GatewayRefusal('bad_params', { detail: `a ${nameOf(kind)} must be a string` });
  }
  const opened = keeper === 'caller' ? undefined : seal.open(kind, value);
  if (opened !== undefined) return opened;
  if (keeper === 'upstream') throw notTheirs(kind);
  return seal.seal('ownTask', value);
}

function notTheirs(kind: OwnedValue['kind']): GatewayRefusal {
  return new GatewayRefusal('not_theirs', { detail: nameOf(kind) });
}

function nameOf(kind: OwnedValue['kind']): string {
  return kind === 'task' ? 'task' : 'requestState';
}
