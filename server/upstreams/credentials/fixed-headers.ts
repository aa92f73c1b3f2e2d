import { z } from 'zod';

import type { FixedHeader, SealedHeaderValue } from '#db/servers';
import type { Clock, EpochSeconds } from '#clock/clock';
import { discard } from '#gateway/answers';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamStep } from '#gateway/upstream';
import type { Sealing } from '#oauth/master-key';
import { callerHeader, type CredentialedServer } from './access.ts';

/*
 * Fixed headers: what an HTTP upstream requires in every request, such as an API key in a header of its own. A value is
 * sealed for its server, its name and the origin of the upstream's URL, so that it opens for no other origin, even if
 * the server's row has changed.
 *
 * A replaced value is kept for a while as the previous one. The new value takes effect on the next call; a request that
 * the upstream refuses with 401 is sent once more with the previous values. So no call fails, whether the value is
 * replaced here first or at the upstream first.
 */

/** How long a replaced value is kept. */
export const overlapSeconds = 7 * 86_400;

export const maxHeaders = 20;
const maxNameLength = 100;
const maxValueLength = 4096;

/** RFC 9110 §5.6.2 */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

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

/** The same for a value, no part of which is repeated. RFC 9110 §5.5 */
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

/** Which server a header belongs to, and where it may be sent. */
export interface HeaderPlace {
  readonly serverId: string;
  readonly name: string;
  /** Any URL of the origin. */
  readonly url: string;
}

/** What a value is sealed for: this server, this header and this origin. */
export function headerPurpose({ serverId, name, url }: HeaderPlace): string {
  return `upstream header ${serverId} ${new URL(url).origin} ${name}`;
}

/**
 * The part of a value that may be shown: its last four characters, if the secret in it is long enough. Nothing of Basic
 * credentials, which may end with a password that a person chose.
 */
export function headerHint(value: string): string | undefined {
  if (/^basic /i.test(value)) return undefined;
  const [last = ''] = value.split(/[\s=;,]/).slice(-1);
  return last.length >= 24 ? `…${last.slice(-4)}` : undefined;
}

/** Returns the headers, sorted by name, with a new value for one of them. Its old value becomes the previous one. */
export function withHeader(
  headers: readonly FixedHeader[],
  { name, sealed, hint, setAt }: SealedHeaderValue & { readonly name: string },
  now: EpochSeconds,
): FixedHeader[] {
  const old = headers.find((header) => header.name === name);
  const others = headers
    .filter((header) => header !== old)
    .map((header) => (previousOf(header, now) ? header : withoutPrevious(header)));
  const until = now + overlapSeconds;
  const previous = old && { sealed: old.sealed, hint: old.hint, setAt: old.setAt, until };
  return [...others, { name, sealed, hint, setAt, previous }].toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  );
}

/** The header without its previous value. */
export function withoutPrevious({ name, sealed, hint, setAt }: FixedHeader): FixedHeader {
  return { name, sealed, hint, setAt };
}

/** The previous value of a header, unless it has expired. */
export function previousOf(
  { previous }: FixedHeader,
  now: EpochSeconds,
): FixedHeader['previous'] | undefined {
  return previous && previous.until > now ? previous : undefined;
}

/** The headers that stay when the upstream changes: those of an unchanged origin, as they are sealed for it. */
export function headersKeptFor(
  from: { readonly url: string; readonly headers?: readonly FixedHeader[] | undefined },
  to: { readonly url: string },
): readonly FixedHeader[] {
  return new URL(from.url).origin === new URL(to.url).origin ? (from.headers ?? []) : [];
}

/** Opens the values of headers for requests to the origin of `url`. Throws when they were sealed for another one. */
export function openedHeaders(
  headers: readonly (SealedHeaderValue & { readonly name: string })[],
  at: Omit<HeaderPlace, 'name'>,
  sealing: Pick<Sealing, 'open'>,
): Record<string, string> {
  return Object.fromEntries(
    headers.map(({ name, sealed }) => [name, sealing.open(headerPurpose({ ...at, name }), sealed)]),
  );
}

export interface FixedHeaderOptions {
  /** Notes that the upstream refused the current values of these headers and accepted the previous ones. */
  readonly noteRefused: (
    serverId: string,
    headers: readonly FixedHeader[],
    now: EpochSeconds,
  ) => Promise<void>;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  /** Called when noting that the current values were refused failed. */
  readonly onError: (error: unknown) => void;
}

/** Adds the fixed headers of a server, if it has any. A fixed header never replaces one that the gateway sets. */
export function fixedHeaderStep(
  server: CredentialedServer,
  { noteRefused, sealing, clock, onError }: FixedHeaderOptions,
): UpstreamStep | undefined {
  if (!server.upstream.headers) return undefined;
  const { url, headers: fixed } = server.upstream;
  const opened = (values: typeof fixed) => {
    try {
      return openedHeaders(values, { serverId: server.id, url }, sealing);
    } catch (cause) {
      const detail = 'its fixed headers were entered for another server or origin';
      throw new GatewayRefusal('upstream_failed', { detail, cause });
    }
  };
  return async (request, next) => {
    const sendWith = (values: typeof fixed) =>
      next({ ...request, headers: { ...opened(values), ...request.headers } });
    const answer = await sendWith(fixed);
    if (answer.status !== 401) return answer;
    const now = clock.now();
    if (!fixed.some((header) => previousOf(header, now))) return answer;
    const previous = fixed.map((header) => {
      const { sealed, setAt } = previousOf(header, now) ?? header;
      return { name: header.name, sealed, setAt };
    });
    // An upstream that answers 401 has done nothing.
    await discard(answer.body);
    const again = await sendWith(previous);
    if (again.status !== 401) {
      noteRefused(server.id, fixed, now).catch(onError);
    }
    return again;
  };
}
