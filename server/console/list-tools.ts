import { z } from 'zod';

import { answerResult, type AnswerError } from './answer-result.ts';
import type { CallServer, ConsoleCall } from './call-server.ts';

const mostPages = 10;

const toolSchema = z.object({
  name: z.string(),
  title: z.string().optional().catch(undefined),
  description: z.string().optional().catch(undefined),
  inputSchema: z.record(z.string(), z.unknown()).catch({}),
});

const listSchema = z.object({
  tools: z.array(toolSchema),
  nextCursor: z.string().optional().catch(undefined),
});

/** A tool as its MCP server describes it. MCP 2025-11-25 tools, "Tool" */
export type Tool = z.output<typeof toolSchema>;

/** The tools, or the error that came in place of them. */
export type ToolList = { readonly outcome: 'tools'; readonly tools: readonly Tool[] } | AnswerError;

/** The tools that this person may call, of at most ten pages. */
export async function listTools(
  asker: Omit<ConsoleCall, 'method' | 'params'>,
  callServer: CallServer,
): Promise<ToolList> {
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const answer = answerResult(await callServer({ ...asker, method: 'tools/list', params }));
    if (answer.outcome === 'error') return answer;
    const { data } = listSchema.safeParse(answer.result);
    if (!data) return { outcome: 'error', message: 'The list of tools cannot be read.' };
    tools.push(...data.tools);
    cursor = data.nextCursor;
    if (cursor === undefined) break;
  }
  return { outcome: 'tools', tools };
}
