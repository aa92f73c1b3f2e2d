import { type FixedHeader, type SealedHeaderValue } from '#model/fixed-headers';
import type { Clock, EpochSeconds } from '#model/clock';
import { discard } from '#gateway/answers';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamStep } from '#gateway/upstream';
import type { Sealing } from '#secrets/master-key';
import { type CredentialedTarget } from './access.ts';

/*
 * Fixed headers, which an HTTP upstream requires in every request: for example, an API key in a header of its own. A value is
 * sealed for its server, its name and the origin of the upstream's URL, so that it opens for no other origin, even if
 * the server's row has changed.
 *
 * A replaced value is kept for a while as the previous one. The new value takes effect on the next call; a request that
 * the upstream refuses with 401 is sent once more with the previous values. So no call fails, whether the value is
 * replaced here first or at the upstream first.
 */

/** How long a replaced value is kept. */
export const overlapSeconds = 7 * 86_400;

/** The server that a header belongs to, and the origin that it may be sent to. */
export interface HeaderPlace {
  readonly targetId: string;
  readonly name: string;
  /** Any URL of the origin. */
  readonly url: string;
}

/** The purpose that a value is sealed for: this server, this header and this origin. */
export function headerPurpose({ targetId, name, url }: HeaderPlace): string {
  return `upstream header ${targetId} ${new URL(url).origin} ${name}`;
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

/** The headers that stay when the URL changes: all if the origin stays, for which they are sealed, and otherwise none. */
export function headersKeptFor(
  from: { readonly url: string; readonly headers?: readonly FixedHeader[] | undefined },
  to: { readonly url: string },
): readonly FixedHeader[] {
  return new URL(from.url).origin === new URL(to.url).origin ? (from.headers ?? []) : [];
}

/** Opens the values of headers for requests to the origin of `url`. Throws when they were sealed for another origin. */
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
    targetId: string,
    headers: readonly FixedHeader[],
    now: EpochSeconds,
  ) => Promise<void>;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  /** Called when `noteRefused` fails. */
  readonly onError: (error: unknown) => void;
}

/** Adds the fixed headers of a target, if it has any. A fixed header never replaces one that the gateway sets. */
export function fixedHeaderStep(
  target: CredentialedTarget,
  { noteRefused, sealing, clock, onError }: FixedHeaderOptions,
): UpstreamStep | undefined {
  if (!target.upstream.headers) return undefined;
  const { url, headers: fixed } = target.upstream;
  const opened = (values: typeof fixed) => {
    try {
      return openedHeaders(values, { targetId: target.id, url }, sealing);
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
      noteRefused(target.id, fixed, now).catch(onError);
    }
    return again;
  };
}
