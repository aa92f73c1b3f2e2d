import { membersIn } from '#gateway/json-parts';
import { scanMessage } from '#gateway/json-scan';
import { toolDefinition, type ToolDefinition } from './tool-definition.ts';

/**
 * The tools in an answer to `tools/list`; `undefined` for anything else, an error among them, or what two
 * parsers could read differently.
 */
export function listedTools(message: Buffer): ToolDefinition[] | undefined {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') return undefined;
  const result = membersIn(message, scan.envelope.root).get('result');
  const span = result && membersIn(message, result).get('tools');
  if (!span) return undefined;
  const elements: unknown = JSON.parse(message.toString('utf8', span.start, span.end));
  if (!Array.isArray(elements)) return undefined;
  return elements.flatMap((tool) => toolDefinition(tool) ?? []);
}
