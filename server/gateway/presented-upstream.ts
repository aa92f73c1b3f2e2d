import { editedAnswer } from './edited-answer.ts';
import { membersIn, stringAt } from './json-parts.ts';
import { replaced } from './splice.ts';
import type { Span } from './strict-json.ts';
import type { Upstream } from './upstream.ts';
import { withMembers } from './with-members.ts';

/** What the operator of a server says of it to whoever connects. */
export interface Presentation {
  readonly title?: string | undefined;
  readonly instructions?: string | undefined;
}

/** The messages that a server presents itself in. */
export const presentingMethods: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

const infoKey = 'io.modelcontextprotocol/serverInfo';

/**
 * An upstream that presents itself as its operator wishes, for the request that asks it to: with this title, and
 * with these instructions before its own. Every other byte of its answer stays.
 *
 * MCP 2025-11-25 lifecycle, "Initialization"; MCP 2026-07-28 `server/discover`
 */
export function presentedUpstream(upstream: Upstream, presentation: Presentation): Upstream {
  return {
    async send(request) {
      const answer = await upstream.send(request);
      return editedAnswer(answer, (message, result) => present(message, result, presentation));
    },
  };
}

function present(message: Buffer, result: Span, { title, instructions }: Presentation): Buffer {
  const members = membersIn(message, result);
  const meta = members.get('_meta');
  const infos = [members.get('serverInfo'), meta && membersIn(message, meta).get(infoKey)];
  const titled = title ? { title: JSON.stringify(title) } : {};
  const own = stringAt(message, members.get('instructions'));
  const both = [instructions, own].filter(Boolean).join('\n\n');
  return replaced(message, [
    ...infos.flatMap((info) => withMembers(message, info, titled)),
    ...(instructions ? withMembers(message, result, { instructions: JSON.stringify(both) }) : []),
  ]);
}
