import { z } from 'zod';

import type { Clock, EpochSeconds } from '#clock/clock';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { discard } from '#gateway/relay';
import type { Upstream } from '#gateway/upstream';
import type { FixedHeader, SealedHeaderValue, ServerRecord } from '#organizations/server-record';
import type { Sealing } from '#people/sealing';
import { callerHeader } from './authorized-upstream.ts';
import type { UpstreamAccessStore } from './upstream-access.ts';

/*
 * Fixed headers: what an HTTP upstream wants in every request, as an API key in a header of its own. A value is sealed
 * for its server, its name and the origin of the upstream's URL, so that it opens for no other origin, whatever the
 * server's row says by then.
 *
 * A value that is replaced stays for a while as the previous one. The new value is used from the next call on; a
 * request that the upstream refuses with 401 is sent once more with the previous values. So neither order of replacing
 * the value here and there makes a call fail.
 */

/** How long a value that was replaced is still there. */
export const overlapSeconds = 7 * 86_400;

export const mostHeaders = 20;
const mostNameCharacters = 100;
const mostValueCharacters = 4096;

/** RFC 9110 §5.6.2 */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Of the connection, of the message's frame, and what Latchkey and MCP say themselves. RFC 9110 §7.6.1 */
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

/** Fixed headers as they are kept. */
export const fixedHeadersSchema = z.array(
  z.object({
    name: z.string(),
    ...sealedValue,
    previous: z.object({ ...sealedValue, until: z.int() }).optional(),
  }),
);

/** What is wrong with the name of a fixed header, in words that go behind the field's name. */
export function headerNameProblem(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (name === '') return 'is empty';
  if (name.length > mostNameCharacters) {
    return `must have at most ${mostNameCharacters} characters`;
  }
  if (!token.test(name)) return 'is not the name of an HTTP header';
  if (reserved.has(lower) || reservedStarts.some((start) => lower.startsWith(start))) {
    return 'is a header that Latchkey or HTTP itself sets: choose another';
  }
  return undefined;
}

/** The same for a value; the words never hold any of it. RFC 9110 §5.5 */
export function headerValueProblem(value: string): string | undefined {
  if (value === '') return 'is empty';
  if (value.length > mostValueCharacters) {
    return `must have at most ${mostValueCharacters} characters`;
  }
  if (!/^[\x20-\x7e]+$/.test(value)) {
    return 'may hold printable ASCII alone, and no line break';
  }
  if (value.trim() !== value) return 'may not begin or end with a space';
  return undefined;
}

/** Whose header it is, and where it may be sent. */
export interface HeaderPlace {
  readonly serverId: string;
  readonly name: string;
  /** Any URL of the origin. */
  readonly url: string;
}

/** What a value is sealed for: neither another server, nor another header, nor another origin. */
export function headerPurpose({ serverId, name, url }: HeaderPlace): string {
  return `upstream header ${serverId} ${new URL(url).origin} ${name}`;
}

/**
 * What may be shown of a value. Its last four characters, where what they are of is long enough; nothing of Basic
 * credentials, whose last characters are those of a password that somebody may have chosen.
 */
export function headerHint(value: string): string | undefined {
  if (/^basic /i.test(value)) return undefined;
  const [last = ''] = value.split(/[\s=;,]/).slice(-1);
  return last.length >= 24 ? `…${last.slice(-4)}` : undefined;
}

/**
 * The headers with another value for one of them, from `now` on; the one that it had becomes the previous one. In the
 * order of their names.
 */
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

/** A header whose present value alone is there. */
export function withoutPrevious({ name, sealed, hint, setAt }: FixedHeader): FixedHeader {
  return { name, sealed, hint, setAt };
}

/** The previous value of a header, while it is still there. */
export function previousOf(
  { previous }: FixedHeader,
  now: EpochSeconds,
): FixedHeader['previous'] | undefined {
  return previous && previous.until > now ? previous : undefined;
}

/** The headers of what goes to `to`: those that are sealed for its origin, and none for another. */
export function headersKeptFor(
  from: ServerRecord['upstream'],
  to: ServerRecord['upstream'],
): readonly FixedHeader[] {
  if (from.kind !== 'http' || to.kind !== 'http') return [];
  return new URL(from.url).origin === new URL(to.url).origin ? (from.headers ?? []) : [];
}

/** The values of headers for requests to the origin of `url`. Throws when they were sealed for another one. */
export function openedHeaders(
  headers: readonly (SealedHeaderValue & { readonly name: string })[],
  at: Omit<HeaderPlace, 'name'>,
  sealing: Pick<Sealing, 'open'>,
): Record<string, string> {
  return Object.fromEntries(
    headers.map(({ name, sealed }) => [name, sealing.open(headerPurpose({ ...at, name }), sealed)]),
  );
}

export interface FixedHeaderPorts {
  readonly accesses: Pick<UpstreamAccessStore, 'noteHeadersRefused'>;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  /** Told when it could not be noted that the present values were refused. */
  readonly failed: (error: unknown) => void;
}

/**
 * The upstream of a server, asked with its fixed headers; itself where it has none. What the gateway says in a header
 * is never replaced by one of them.
 */
export function upstreamWithHeaders(
  upstream: Upstream,
  server: ServerRecord,
  { accesses, sealing, clock, failed }: FixedHeaderPorts,
): Upstream {
  if (server.upstream.kind !== 'http' || !server.upstream.headers) return upstream;
  const { url, headers: fixed } = server.upstream;
  const opened = (values: typeof fixed) => {
    try {
      return openedHeaders(values, { serverId: server.id, url }, sealing);
    } catch (cause) {
      const detail = 'its fixed headers were entered for another server or origin';
      throw new GatewayRefusal('upstream_failed', { detail, cause });
    }
  };
  return {
    ...upstream,
    async send(request) {
      const sendWith = (values: typeof fixed) =>
        upstream.send({ ...request, headers: { ...opened(values), ...request.headers } });
      const answer = await sendWith(fixed);
      if (answer.status !== 401) return answer;
      const now = clock.now();
      if (!fixed.some((header) => previousOf(header, now))) return answer;
      const former = fixed.map((header) => {
        const { sealed, setAt } = previousOf(header, now) ?? header;
        return { name: header.name, sealed, setAt };
      });
      // An upstream that answers 401 did nothing.
      await discard(answer.body);
      const again = await sendWith(former);
      if (again.status !== 401) {
        accesses.noteHeadersRefused(server.id, fixed, now).catch(failed);
      }
      return again;
    },
  };
}
