// The key that an MCP server requires of each person: what an administrator chooses, and which keys are accepted.
import { z } from 'zod';

import type { EpochSeconds } from './clock.ts';
import { headerValueProblem } from './fixed-headers.ts';
import type { UpstreamKind } from './upstream-kinds.ts';

/** The rule that an administrator chose for the keys of people at a target, as it is stored. */
export const personKeyRuleSchema = z.object({
  /** Lower case. */
  header: z.string(),
  /** The header's value, with `{key}` once in it. */
  template: z.string(),
  /** What people call it: `Personal access token`. */
  label: z.string(),
  /** Where people get it. */
  helpUrl: z.string().optional(),
  /** A tool that only reads, with which a key is tried. */
  tool: z.string().optional(),
});

export type PersonKeyRule = Readonly<z.infer<typeof personKeyRuleSchema>>;

/** Where the person's key is put in the header's value. */
const placeholder = '{key}';
const maxTemplateLength = 200;
const leastKeyLength = 8;
const maxKeyLength = 3800;

/** The template that most servers expect in this header. RFC 6750 §2.1 */
export function usualTemplate(header: string): string {
  return header === 'authorization' ? `Bearer ${placeholder}` : placeholder;
}

/** What is wrong with a template, as a phrase that follows the field's name. */
export function templateProblem(template: string): string | undefined {
  if (template.split(placeholder).length !== 2) return `must contain ${placeholder} once`;
  if (template.length > maxTemplateLength) {
    return `must have at most ${maxTemplateLength} characters`;
  }
  return headerValueProblem(template);
}

/** What is wrong with a key, which becomes part of a header. The phrase repeats no part of the key. RFC 9110 §5.5 */
export function keyProblem(key: string): string | undefined {
  if (key === '') return 'is empty';
  if (key.length < leastKeyLength) return `must have at least ${leastKeyLength} characters`;
  if (key.length > maxKeyLength) return `must have at most ${maxKeyLength} characters`;
  if (/^[\x21-\x7e]+$/.test(key)) return undefined;
  return 'may contain only letters, digits and punctuation of ASCII, without spaces or line breaks';
}

/** What is wrong with a URL for help, as a phrase that follows the field's name. */
export function helpUrlProblem(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:') return 'is not an https URL';
  return url.username || url.password ? 'must not contain a user or a password' : undefined;
}

/** The header of a call. */
export function keyHeader(
  { header, template }: PersonKeyRule,
  key: string,
): { readonly name: string; readonly value: string } {
  // A replacement text would be searched for patterns such as `$&`.
  return { name: header, value: template.replace(placeholder, () => key) };
}

/**
 * Where the keys of a target are sent: the origin of its URL, or its agent. `undefined` for an upstream that gets no requests with
 * headers. A key for one place is never sent to another.
 */
export function keyPlace(upstream: UpstreamKind): string | undefined {
  switch (upstream.kind) {
    case 'http':
      return new URL(upstream.url).origin;
    case 'agent':
      return `agent ${upstream.agentId}`;
    case 'stdio':
    case 'demo':
    case 'collection':
      return undefined;
  }
}

/** The part of a key that may be shown: its last four characters, if it is long enough. */
export function keyHint(key: string): string | undefined {
  return key.length >= 24 ? `…${key.slice(-4)}` : undefined;
}

/** The state of a person's key. */
export interface KeyState {
  /** When it was entered. */
  readonly setAt: EpochSeconds;
  /** When the tool of the rule answered a call with the key; absent if the upstream only answered a list. */
  readonly provedAt?: EpochSeconds | undefined;
  /** When the upstream last refused it; absent once it was accepted again. */
  readonly refusedAt?: EpochSeconds | undefined;
  /** When the upstream last accepted it, to within five minutes. */
  readonly lastUsedAt?: EpochSeconds | undefined;
}
