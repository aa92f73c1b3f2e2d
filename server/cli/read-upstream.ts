import { urlProblem } from '#administration/upstream-field';
import type { Option } from '#config/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import type { Stores } from './command.ts';

export const upstreamOptions: readonly Option[] = [
  { name: 'http-url', value: 'URL', doc: 'a Streamable HTTP MCP server' },
  { name: 'agent', value: 'NAME', doc: 'an on-premise agent of the organization' },
  { name: 'demo', doc: 'the demo library' },
];

/**
 * Where the calls of a server shall go, as it was typed.
 *
 * @throws {UsageError} unless exactly one way is given, and rightly
 * @throws {CommandError} when there is no such agent
 */
export async function readUpstream(
  input: Input,
  organization: string,
  stores: Pick<Stores, 'agents'>,
): Promise<{ kind: 'demo' } | { kind: 'http'; url: string } | { kind: 'agent'; agent: string }> {
  const url = input.text('http-url');
  const agent = input.text('agent');
  const demo = input.flag('demo');
  if ([url !== undefined, agent !== undefined, demo].filter(Boolean).length !== 1) {
    throw new UsageError('give one of --http-url URL, --agent NAME, --demo');
  }
  if (url !== undefined) return { kind: 'http', url: checkUrl(url) };
  if (agent === undefined) return { kind: 'demo' };
  if (await stores.agents.byName(organization, agent)) return { kind: 'agent', agent };
  throw new CommandError(
    `there is no agent ${organization}/${agent}`,
    `latchkey-server agent create ${organization}/${agent}`,
  );
}

function checkUrl(text: string): string {
  const problem = urlProblem(text);
  if (problem?.startsWith('may')) throw new UsageError(`--http-url ${problem}`);
  if (problem !== undefined) throw new UsageError(`--http-url '${text}' ${problem}`);
  return text;
}
