import type { Envelope } from 'latchkey-mcp/message';
import { recordedMethods } from '#model/calls';

/**
 * Whether a message is a request whose answer has an end. A message that was refused unread counts as a call,
 * because most messages are calls.
 */
export function isCall(envelope: Envelope | undefined): boolean {
  if (!envelope) return true;
  return envelope.kind === 'request' && envelope.method !== 'subscriptions/listen';
}

/** The methods of requests that a collection passes on to one of its members. */
export const passedMethods: ReadonlySet<string> = new Set([...recordedMethods, 'tasks/get']);

/** The methods with arguments or results that a server may store. Methods of lists are left out, because they do not show what was done. */
export const methodsWithContents: ReadonlySet<string> = new Set([
  'tools/call',
  'resources/read',
  'prompts/get',
  'tasks/result',
]);
