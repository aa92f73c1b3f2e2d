import { memberIn, membersIn } from 'latchkey-mcp/json-edit';
import { type AnswerMessage, errorMarks } from './filters.ts';
import type { AnswerFacts } from './metering.ts';

const maxErrorBytes = 64 * 1024;

/**
 * The tool error or protocol error in a message of an answer; `undefined` if the message is no error. Only a message that
 * contains one of `errorMarks` is parsed. A message of more than 64 KiB does not count as an error, because errors are short.
 *
 * JSON-RPC 2.0 §5.1; MCP 2025-11-25 tools, "Error Handling"
 */
export function errorIn(message: AnswerMessage): AnsweredError | undefined {
  const { bytes } = message;
  if (bytes.length > maxErrorBytes || message.lacks(errorMarks)) return undefined;
  const { scan } = message;
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') return undefined;
  const members = membersIn(bytes, scan.envelope.root);
  const error = members.get('error');
  if (error) {
    const code = memberIn(bytes, error, 'code');
    const text = code && bytes.toString('utf8', code.start, code.end);
    return { end: 'protocol_error', error: rpcCode.test(text ?? '') ? text : undefined };
  }
  const result = members.get('result');
  const isError = result && membersIn(bytes, result).get('isError');
  if (!isError || bytes.toString('utf8', isError.start, isError.end) !== 'true') return undefined;
  return { end: 'tool_error' };
}

/** A code that is no number could be any text of the MCP server, a secret included, so it is not kept. */
const rpcCode = /^-?\d{1,15}$/;

/** An error that an MCP server answered with, as it is recorded. */
export type AnsweredError = Pick<AnswerFacts, 'end' | 'error'>;
