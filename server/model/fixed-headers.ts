// Fixed headers of an HTTP upstream: as they are stored, and as an administrator may enter them.
import { z } from 'zod';

import type { EpochSeconds } from './clock.ts';

/** A value of a fixed header, encrypted for one server, one header and one origin. */
export interface SealedHeaderValue {
  readonly sealed: string;
  /** Its last characters, if the value is long enough to reveal them. */
  readonly hint?: string | undefined;
  readonly setAt: EpochSeconds;
}

/** A header that is added to every request to an HTTP upstream. */
export interface FixedHeader extends SealedHeaderValue {
  /** Lower case. */
  readonly name: string;
  /** The value before the last change. It is sent, until `until`, when the upstream refuses the current one. */
  readonly previous?: (SealedHeaderValue & { readonly until: EpochSeconds }) | undefined;
}

export const maxHeaders = 20;
const maxNameLength = 100;
const maxValueLength = 4096;

/** RFC 9110 §5.6.2 */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The header for the assertion of the caller's identity if `Authorization` has an upstream token, a fixed header or a person's key. */
export const callerHeader = 'latchkey-caller';

/** Headers of the connection and of message framing, and those that Latchkey and MCP set. RFC 9110 §7.6.1 */
const reserved = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'last-event-id',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  callerHeader,
]);

const reservedStarts = ['content-', 'mcp-'];

const sealedValue = { sealed: z.string(), hint: z.string().optional(), setAt: z.int() };

/** Fixed headers as they are stored. */
export const fixedHeadersSchema = z.array(
  z.object({
    name: z.string(),
    ...sealedValue,
    previous: z.object({ ...sealedValue, until: z.int() }).optional(),
  }),
);

/** What is wrong with the name of a fixed header, as a phrase that follows the field's name. */
export function headerNameProblem(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (name === '') return 'is empty';
  if (name.length > maxNameLength) {
    return `must have at most ${maxNameLength} characters`;
  }
  if (!token.test(name)) return 'is not the name of an HTTP header';
  if (reserved.has(lower) || reservedStarts.some((start) => lower.startsWith(start))) {
    return 'is a header that Latchkey or HTTP itself sets: choose another';
  }
  return undefined;
}

/** What is wrong with the value of a fixed header. The phrase follows the field's name, and repeats no part of the value. RFC 9110 §5.5 */
export function headerValueProblem(value: string): string | undefined {
  if (value === '') return 'is empty';
  if (value.length > maxValueLength) {
    return `must have at most ${maxValueLength} characters`;
  }
  if (!/^[\x20-\x7e]+$/.test(value)) {
    return 'may contain only printable ASCII characters, without line breaks';
  }
  if (value.trim() !== value) return 'may not begin or end with a space';
  return undefined;
}

/** The fields of a fixed header as an administrator enters it. */
export const headerFields = {
  name: textWithout(headerNameProblem)
    .transform((name) => name.toLowerCase())
    .describe('Not case-sensitive; not one that HTTP, MCP or Latchkey sets'),
  value: textWithout(headerValueProblem).describe(
    'At most 4096 printable ASCII characters; never shown again',
  ),
};

/** A list of fixed headers as an administrator enters it. */
export const headersField = z
  .array(z.strictObject(headerFields))
  .max(maxHeaders)
  .superRefine((headers, context) => {
    const names = headers.map(({ name }) => name);
    if (new Set(names).size === names.length) return;
    context.addIssue({ code: 'custom', message: 'contain a header twice' });
  });

/** A text that `problemOf` accepts. */
export function textWithout(problemOf: (text: string) => string | undefined, text = z.string()) {
  return text.superRefine((entered, context) => {
    const problem = problemOf(entered);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  });
}
