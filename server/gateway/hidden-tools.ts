import { z } from 'zod';

import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { jsonAnswer } from './relay.ts';
import { responseIn, wholeBody } from './event-stream.ts';
import type { UpstreamAnswer } from './upstream.ts';

/**
 * A `tools/list` answer without the tools that this server hides. Read whole and written anew, always
 * as JSON: what cannot be understood is refused rather than passed on with everything in it.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export async function withoutTools(
  answer: UpstreamAnswer,
  hidden: readonly string[],
): Promise<GatewayAnswer> {
  const isStream = answer.mediaType === 'text/event-stream';
  const bytes = isStream ? await responseIn(answer.body) : await wholeBody(answer.body);
  const message = parse(bytes);
  if (message.result) {
    message.result.tools = message.result.tools.filter(({ name }) => !hidden.includes(name));
  }
  return jsonAnswer(answer.status, JSON.stringify(message));
}

const toolListSchema = z.looseObject({
  result: z.looseObject({ tools: z.array(z.looseObject({ name: z.string() })) }).optional(),
});

function parse(bytes: Uint8Array): z.infer<typeof toolListSchema> {
  try {
    return toolListSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    throw new GatewayRefusal('upstream_failed', {
      detail: 'its list of tools cannot be read',
      cause,
    });
  }
}
