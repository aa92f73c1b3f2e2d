import type { ShownServer } from '#administration/shown-server';
import type { AnswerError } from '#console/answer-result';
import { agentPath } from './agent-path.ts';
import type { DashboardVisit } from './dashboard-door.ts';
import { serverPath } from './server-tabs.ts';

/** Where whoever looks after a server looks next when it gave no answer. */
export interface NextLook {
  readonly text: string;
  readonly link: { readonly text: string; readonly href: string };
}

/** What the gateway answers for servers that are away, that fail, or that are too busy. */
const notServed = -32_000;

/** The next step after a call that ended before its MCP server or at it; for nobody who cannot take it. */
export function whereCallsEnd(
  { code }: AnswerError,
  { name, upstream }: Pick<ShownServer, 'name' | 'upstream'>,
  { organization, may }: Pick<DashboardVisit, 'organization' | 'may'>,
): NextLook | undefined {
  if (code !== notServed || !may('server.manage')) return undefined;
  if (upstream.kind === 'agent') {
    return {
      text: `The agent ${upstream.agent} serves it. Its page says whether it is online, and whether its configuration has a server ${name}.`,
      link: { text: 'To the agent', href: agentPath(organization, upstream.agent) },
    };
  }
  if (upstream.kind !== 'http') return undefined;
  return {
    text: `Its calls go to ${upstream.url}. From here that is reached on the public internet only, unless whoever runs this server allowed the host by --outbound-host; into a private network an agent leads. The log of this server has the reason, under the request number below.`,
    link: { text: 'To its settings', href: `${serverPath(organization, name)}/settings` },
  };
}
