import { membersIn } from '#gateway/json-parts';
import { spanAt, stringAt, textAt, type Message } from './message.ts';

/** What a modern upstream needs from its caller before it goes on. */
export interface NeededInput {
  /** By the upstream's own key; `params` is JSON text. */
  readonly requests: readonly {
    readonly key: string;
    readonly method: string;
    readonly params: string;
  }[];
  /** JSON text, to be handed back as it is. */
  readonly requestState: string | undefined;
}

/**
 * What a response asks for; `undefined` for one that is complete.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function neededInput(response: Message): NeededInput | undefined {
  if (stringAt(response, 'result', 'resultType') !== 'input_required') return undefined;
  const asked = spanAt(response, 'result', 'inputRequests');
  const keys = asked ? [...membersIn(response.body, asked).keys()] : [];
  return {
    requests: keys.map((key) => ({
      key,
      method: stringAt(response, 'result', 'inputRequests', key, 'method') ?? '',
      params: textAt(response, 'result', 'inputRequests', key, 'params') ?? '{}',
    })),
    requestState: textAt(response, 'result', 'requestState'),
  };
}
