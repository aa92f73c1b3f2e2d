import { reply, type ReplyOptions } from '#server/gateway/reply';
import type { GatewayAnswer } from '#server/gateway/request';
import { upstreamAnswer, type ScriptedAnswer } from './fake-upstream.ts';

const options: ReplyOptions = {
  accepts: { json: true, events: true },
  filters: [],
  maxBytes: Infinity,
  signal: new AbortController().signal,
  finish: () => undefined,
  report: undefined,
  cut: () => undefined,
};

/** The answer that a caller who accepts JSON and events gets for an upstream's answer, without limits or filters unless `but` has some. */
export async function replied(
  answer: ScriptedAnswer,
  but: Partial<ReplyOptions> = {},
): Promise<GatewayAnswer> {
  return reply(upstreamAnswer(answer), { ...options, ...but });
}
