import { toolsIn, unreadableTools } from '#gateway/tool-list';
import { toolDefinition, type ToolDefinition } from './tool-definition.ts';

/**
 * The tools in an answer to `tools/list`; `undefined` for an error.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, also for a tool that could not be held against anything later
 */
export function listedTools(message: Buffer): ToolDefinition[] | undefined {
  return toolsIn(message)?.tools.map(({ span }) => {
    const tool = toolDefinition(JSON.parse(message.toString('utf8', span.start, span.end)));
    if (!tool) throw unreadableTools('the name of a tool is empty or too long');
    return tool;
  });
}
