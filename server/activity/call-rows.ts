import { newCallRecordId } from '#db/calls';
import { redact } from 'latchkey-mcp/safe-text';
import type { AnnouncedApplication, CallRecord, EndedCall } from '#model/calls';
import { LimitedMap } from '#model/limited-map';

const maxNames = 10_000;
const maxStoredTexts = 2000;
const namesValidMs = 10_000;

/** The lengths to which texts that callers chose are cut. */
const maxLengths = { name: 200, uri: 500, application: 200, method: 100, other: 200 };

const nameKinds = ['organization', 'key', 'client', 'person', 'grant'] as const;
type NameKind = (typeof nameKinds)[number];

/** Looks up the names that the rows of calls need. */
export type CallNames = (
  kind: NameKind,
  ids: readonly string[],
) => Promise<ReadonlyMap<string, string>>;

export interface CallRowsPorts {
  /** Ids of organizations by name; names of keys and clients and addresses of people by id; ids of devices by grant. */
  readonly namesOf: CallNames;
  /** The name of this process among those that share the database. */
  readonly node: string;
  readonly nowMs: () => number;
}

/** A name as rows contain it: one object that all rows with the name share. */
interface Named {
  readonly id: string;
  readonly name: string;
}

interface KnownName {
  readonly untilMs: number;
  readonly named: Named;
  readonly credential: CallRecord['credential'] | undefined;
}

/** Makes the rows of calls: adds names as they are now, and redacts texts from outside. */
export class CallRows {
  readonly #ports: CallRowsPorts;
  readonly #names: Readonly<Record<NameKind, LimitedMap<string, KnownName>>> = {
    organization: new LimitedMap(maxNames),
    key: new LimitedMap(maxNames),
    client: new LimitedMap(maxNames),
    person: new LimitedMap(maxNames),
    grant: new LimitedMap(maxNames),
  };
  readonly #texts = new StoredTexts();

  constructor(ports: CallRowsPorts) {
    this.#ports = ports;
  }

  /** Looks up the names for these calls, unless they were looked up within the last ten seconds. */
  async learnNames(all: readonly { readonly call: EndedCall }[]): Promise<void> {
    const nowMs = this.#ports.nowMs();
    const missing: Partial<Record<NameKind, Set<string>>> = {};
    const want = (kind: NameKind, id: string) => {
      const known = this.#names[kind].get(id);
      if (!known || known.untilMs <= nowMs) (missing[kind] ??= new Set()).add(id);
    };
    for (const { call } of all) {
      want('organization', call.endpoint.organization);
      want(call.credential.type, call.credential.id);
      if (call.userId !== undefined) want('person', call.userId);
      if (call.grantId !== undefined) want('grant', call.grantId);
    }
    for (const kind of nameKinds) {
      const ids = missing[kind];
      if (!ids) continue;
      const found = await this.#ports.namesOf(kind, [...ids]);
      for (const [id, name] of found) this.#names[kind].set(id, knownName(kind, id, name, nowMs));
      if (kind !== 'grant') continue;
      // Most grants have no device. An empty name keeps them from being looked up each time.
      for (const id of ids)
        if (!found.has(id)) this.#names[kind].set(id, knownName(kind, id, '', nowMs));
    }
  }

  /** The row of a call whose names are known; `undefined` if its organization was deleted meanwhile. */
  of(call: EndedCall, times: number): CallRecord | undefined {
    const { endpoint, target, credential, userId, application, address, requestId } = call;
    const { method, subject } = call;
    const { organization, person, grant } = this.#names;
    const deviceId = grant.get(call.grantId ?? '')?.named.name;
    const organizationId = organization.get(endpoint.organization)?.named.name;
    if (organizationId === undefined) return undefined;
    const id = newCallRecordId(this.#ports.nowMs());
    return {
      organizationId,
      id,
      callId: call.callId ?? id,
      startedAtMs: call.startedAtMs,
      durationMs: call.durationMs,
      node: this.#ports.node,
      requestId: requestId.slice(0, maxLengths.other),
      traceId: call.traceId,
      era: call.era,
      person:
        userId === undefined ? undefined : (person.get(userId)?.named ?? { id: userId, name: '' }),
      credential: this.#names[credential.type].get(credential.id)?.credential ?? {
        type: credential.type,
        id: credential.id,
        name: '',
      },
      application:
        application &&
        withText(application, this.#texts.text(application.text, maxLengths.application)),
      address: address?.slice(0, maxLengths.other),
      endpoint: { id: endpoint.id, name: endpoint.name },
      target: { id: target.id, name: target.name },
      account: call.account,
      method: method && this.#texts.text(method, maxLengths.method),
      subject: subject && this.#texts.text(subject, maxLengths.uri),
      end: call.end,
      error: call.error,
      status: call.status,
      bytesIn: call.bytesIn,
      bytesOut: call.bytesOut,
      ...(deviceId && { deviceId }),
      times,
    };
  }
}

function knownName(kind: NameKind, id: string, name: string, nowMs: number): KnownName {
  return {
    untilMs: nowMs + namesValidMs,
    named: { id, name },
    credential: kind === 'organization' || kind === 'grant' ? undefined : { type: kind, id, name },
  };
}

/** Cuts the texts of a call to the stored lengths, because calls wait in memory, and refusals stay there for a minute. */
export function shortened(call: EndedCall): EndedCall {
  const { method, subject, application } = call;
  const shortMethod = method && cut(method, maxLengths.method);
  const shortSubject = subject && subjectOf(subject, method);
  const shortApplication =
    application && withText(application, cut(application.text, maxLengths.application));
  const isShort =
    shortMethod === method && shortSubject === subject && shortApplication === application;
  if (isShort) return call;
  return { ...call, method: shortMethod, subject: shortSubject, application: shortApplication };
}

function withText(application: AnnouncedApplication, text: string): AnnouncedApplication {
  return text === application.text ? application : { ...application, text };
}

/** The name of a tool or prompt; or a URI without its query, which can hold anything, and without user and password. */
function subjectOf(subject: string, method: string | undefined): string {
  const isUri = subject.includes(':') || method?.startsWith('resources/') === true;
  if (!isUri) return cut(subject, maxLengths.name);
  const end = subject.search(/[?#]/);
  const whole = end < 0 ? subject : `${subject.slice(0, end + 1)}…`;
  return own(whole.replace(userOfUri, '$1…@'), maxLengths.uri);
}

/** RFC 3986 §3.2.1. Some programs also accept `@` in a password. */
const userOfUri = /^([a-z][\w+.-]*:\/\/)[^/?#]*@/i;

function cut(text: string, maxLength: number): string {
  return text.length > maxLength ? own(text, maxLength) : text;
}

/** The beginning of a text in memory of its own. `slice` alone keeps the whole text. */
function own(text: string, maxLength: number): string {
  return Buffer.from(text.slice(0, maxLength)).toString();
}

/** Texts from outside as they are stored: without secrets. Most calls have texts that earlier ones had, too. */
class StoredTexts {
  readonly #stored = new LimitedMap<string, string>(maxStoredTexts);

  text(text: string, maxLength: number): string {
    const known = this.#stored.get(text);
    if (known !== undefined) return known;
    // PostgreSQL rejects a batch of rows if a text contains NUL or, in the JSON of the index, half of a surrogate pair.
    const stored = redact(text.replaceAll('\0', '\uFFFD')).slice(0, maxLength).toWellFormed();
    this.#stored.set(text, stored);
    return stored;
  }
}
