import type { Span } from 'latchkey-mcp/json';
import { type Edit, memberEdits, membersIn } from 'latchkey-mcp/json-edit';
import type { ListedCorrection } from '#db/note-definitions';
import { type ToolCorrection, toolHints, trustingHints } from '#model/tool-correction';
import { hintsIn } from './definition-lists.ts';

/**
 * The edits that correct a tool in a list. All bytes that are not corrected stay.
 *
 * While the tool's annotations differ from the accepted ones, the correction may have been made for another tool. Then it sets no hint to
 * the value with which assistants ask less often.
 */
export function correctionEdits(
  message: Buffer,
  tool: Span,
  { correction, isDoubtful }: ListedCorrection,
): Edit[] {
  const { title, description } = correction;
  const annotations = membersIn(message, tool).get('annotations');
  const inside = annotations && hintsIn(message, annotations);
  const hints = {
    ...hintsOf(correction, isDoubtful),
    // Clients of protocol versions before 2025-06-18 show this title.
    ...(title !== undefined && inside?.has('title') && { title: JSON.stringify(title) }),
  };
  const texts = {
    ...(title !== undefined && { title: JSON.stringify(title) }),
    ...(description !== undefined && { description: JSON.stringify(description) }),
  };
  if (Object.keys(hints).length === 0) return memberEdits(message, tool, texts);
  if (inside) {
    return [...memberEdits(message, tool, texts), ...memberEdits(message, annotations, hints)];
  }
  const members = Object.entries(hints).map(([name, json]) => `${JSON.stringify(name)}:${json}`);
  return memberEdits(message, tool, { ...texts, annotations: `{${members.join(',')}}` });
}

/** The hints to set, as JSON texts. */
function hintsOf(
  { annotations = {} }: ToolCorrection,
  isDoubtful: boolean,
): Record<string, string> {
  const pairs = toolHints.flatMap((name) => {
    const value = annotations[name];
    const isSet = value !== undefined && !(isDoubtful && value === trustingHints[name]);
    return isSet ? [[name, String(value)] as const] : [];
  });
  return Object.fromEntries(pairs);
}
