import { createHash } from 'node:crypto';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { type ListMethod, listedKind } from '#gateway/tool-list';
import { LimitedMap } from '#model/limited-map';
import { changedObject } from 'latchkey-mcp/json-edit';
import { type Message, messageOf, resultTo, withId } from 'latchkey-mcp/message';
import type { CollectionCaller, CollectionPorts, Member } from './member-calls.ts';
import type { KeptAnswer, MemberAnswer, MemberLists } from './member-lists.ts';
import { namesOf, ShownNames } from './shown-names.ts';

/** The lists that are merged, with the members of their results. */
const mergedLists = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
} as const satisfies Partial<Record<ListMethod, string>>;
export type MergedMethod = keyof typeof mergedLists;

export function isMergedList(method: string): method is MergedMethod {
  return Object.hasOwn(mergedLists, method);
}

/** More than any assistant shows. */
const pageEntries = 1000;
const mostRemembered = 10_000;
/** Pages of up to this many bytes are cached. */
const cachedPageBytes = 512 * 1024;
const mostCachedPages = 100;
/** Our cursors are names. Callers may send longer cursors, which are not cached. */
const longestCachedCursor = 4096;
/** Under this member of `_meta`, a list says which members were away when it was made, and how old their lists are. */
const agesName = 'dev.latchkey/membersAway';

/** The list of a collection for one caller. */
export interface MergedList {
  /** By the shown names. */
  readonly entries: readonly { readonly shown: string; readonly bytes: Buffer }[];
  /** Whether a member was never read, so that its entries are missing. */
  readonly isPartial: boolean;
  /** The ages of the lists of members that are away, in seconds, by the names of the members; `null` for a list that was never read. */
  readonly away: Readonly<Record<string, number | null>>;
  readonly ttlMs: number;
  /** Differs if the entries differ. */
  readonly digest: string;
}

interface Made {
  readonly answers: readonly (KeptAnswer | undefined)[];
  readonly names: ShownNames;
  readonly entries: MergedList['entries'];
  readonly digest: string;
}

/** Merges the lists of members under the names of the collection. */
export class MergedLists {
  readonly #ports: CollectionPorts;
  readonly #lists: MemberLists;
  /** The answers whose names were noted last, by collection, member and method. */
  readonly #noted = new LimitedMap<string, KeptAnswer>(mostRemembered);
  readonly #made = new LimitedMap<string, Made>(1000);
  /** Pages by the content of their list and by cursor, each as the answer to a request with the id 0. */
  readonly #pages = new LimitedMap<string, Message>(mostCachedPages);

  constructor(ports: CollectionPorts, lists: MemberLists) {
    this.#ports = ports;
    this.#lists = lists;
  }

  /** The names of the collection, once this list of all members was read. */
  async names(method: MergedMethod, caller: CollectionCaller): Promise<ShownNames> {
    return this.#names(method, caller, await this.#ofMembers(method, caller));
  }

  #ofMembers(method: MergedMethod, caller: CollectionCaller): Promise<MemberAnswer[]> {
    const { members } = caller.upstream;
    return Promise.all(members.map((member) => this.#lists.read(method, member, caller)));
  }

  /** @throws {GatewayRefusal} `upstream_unreachable` if members are away and none was ever read */
  async read(method: MergedMethod, caller: CollectionCaller): Promise<MergedList> {
    const { members } = caller.upstream;
    const read = await this.#ofMembers(method, caller);
    const isAny = read.some(({ outcome }) => outcome === 'read' || outcome === 'stale');
    const away = members.filter((_, place) => read[place]?.outcome === 'away');
    if (!isAny && away.length > 0) {
      const detail = `none of these servers could be reached: ${away.map(({ name }) => name).join(', ')}`;
      throw new GatewayRefusal('upstream_unreachable', { detail });
    }
    const answers = read.map((one) => ('answer' in one ? one.answer : undefined));
    const made =
      this.#madeOf(method, caller, answers, namesOf(caller.upstream)) ??
      this.#merged(method, caller, answers, await this.#names(method, caller, read));
    return { ...made, ...this.#freshness(caller, read) };
  }

  /** One page of a list, as `pageOf` makes it. @throws {GatewayRefusal} `upstream_unreachable`, `bad_params` */
  async page(
    method: MergedMethod,
    caller: CollectionCaller,
    id: string,
    cursor: string | undefined,
  ): Promise<Message> {
    const list = await this.read(method, caller);
    if (cursor !== undefined && cursor.length > longestCachedCursor)
      return pageOf(method, list, id, cursor);
    const { digest, ttlMs, away } = list;
    const key = JSON.stringify([method, digest, ttlMs, away, cursor]);
    const page = this.#pages.get(key) ?? pageOf(method, list, '0', cursor);
    if (page.body.length <= cachedPageBytes) this.#pages.set(key, page);
    return withId(page, id);
  }

  /** The age and completeness of the answers. */
  #freshness(
    { upstream: { members } }: CollectionCaller,
    read: readonly MemberAnswer[],
  ): Pick<MergedList, 'away' | 'isPartial' | 'ttlMs'> {
    const now = this.#ports.now();
    const away = members.flatMap(({ name }, place): [string, number | null][] => {
      const one = read[place];
      if (one?.outcome === 'away') return [[name, null]];
      return one?.outcome === 'stale' ? [[name, Math.max(0, now - one.answer.readAt)]] : [];
    });
    const isWhole = away.length === 0;
    const ttls = read.flatMap((one) => ('answer' in one ? [one.answer.ttlMs] : []));
    return {
      away: Object.fromEntries(away),
      isPartial: read.some(({ outcome }) => outcome === 'away'),
      ttlMs: isWhole && ttls.length > 0 ? Math.min(...ttls) : 0,
    };
  }

  /** The list that was last made for the caller, if it was made of the same answers and names. */
  #madeOf(
    method: MergedMethod,
    { owner }: CollectionCaller,
    answers: readonly (KeptAnswer | undefined)[],
    names: ShownNames,
  ): Pick<Made, 'entries' | 'digest'> | undefined {
    const made = this.#made.get(`${method} ${owner}`);
    const isSame =
      made?.names === names &&
      made.answers.length === answers.length &&
      made.answers.every((answer, place) => answer === answers[place]);
    return isSame ? { entries: made.entries, digest: made.digest } : undefined;
  }

  #merged(
    method: MergedMethod,
    caller: CollectionCaller,
    answers: readonly (KeptAnswer | undefined)[],
    names: ShownNames,
  ): Pick<Made, 'entries' | 'digest'> {
    const same = this.#madeOf(method, caller, answers, names);
    if (same) return same;
    const { members } = caller.upstream;
    const kind = listedKind(method);
    const entries = members
      .flatMap((member, place) =>
        (answers[place]?.entries ?? []).flatMap(({ name, bytes }) => {
          const shown = names.shownOf(kind, member, name);
          if (shown === undefined) return [];
          return [{ shown, bytes: shown === name ? bytes : renamed(bytes, shown) }];
        }),
      )
      .toSorted((one, other) => (one.shown < other.shown ? -1 : 1));
    const digest = digestOf(entries.map(({ bytes }) => bytes));
    this.#made.set(`${method} ${caller.owner}`, { answers, names, entries, digest });
    return { entries, digest };
  }

  /** The names of the collection, after it has noted names that were listed for the first time. */
  async #names(
    method: MergedMethod,
    caller: CollectionCaller,
    read: readonly MemberAnswer[],
  ): Promise<ShownNames> {
    const { upstream, admission } = caller;
    const kind = listedKind(method);
    const names = namesOf(upstream);
    const collectionId = admission.endpoint.id;
    const keyOf = ({ id }: Member) => `${collectionId} ${id} ${method}`;
    const news = upstream.members.flatMap((member, place) => {
      const one = read[place];
      if (!one || !('answer' in one) || this.#noted.get(keyOf(member)) === one.answer) return [];
      const unknown = one.answer.entries.filter(
        ({ name }) => names.shownOf(kind, member, name) === undefined,
      );
      return unknown.length > 0 ? [{ member, answer: one.answer, unknown }] : [];
    });
    if (news.length === 0) return names;
    const shown = await this.#ports.note(collectionId, {
      lists: news.map(({ member, unknown }) => ({
        kind,
        member: member.id,
        names: unknown.map(({ name }) => name),
      })),
      withApps: news.flatMap(({ member, answer }) =>
        kind === 'tool' && answer.entries.some(({ bytes }) => hasPage(bytes)) ? [member.id] : [],
      ),
    });
    for (const { member, answer } of news) this.#noted.set(keyOf(member), answer);
    return new ShownNames({ members: upstream.members, names: shown });
  }
}

function digestOf(parts: readonly Buffer[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\n');
  return hash.digest('base64url');
}

function renamed(bytes: Buffer, shown: string): Buffer {
  const span = { start: 0, end: bytes.length };
  return Buffer.from(changedObject(bytes, span, { name: JSON.stringify(shown) }));
}

/** Whether a tool has a page of MCP Apps. SEP-1865 */
function hasPage(tool: Buffer): boolean {
  if (!tool.includes('"ui')) return false;
  const { _meta: meta }: { _meta?: unknown } = JSON.parse(tool.toString());
  return Object.keys(Object(meta)).some((name) => name === 'ui' || name.startsWith('ui/'));
}

/**
 * One page of a list, as the answer to a request. Its cursor is the last name of the page, so that it stays valid when
 * entries join or leave.
 */
export function pageOf(
  method: MergedMethod,
  { entries, ttlMs, away }: MergedList,
  id: string,
  cursor: string | undefined,
): Message {
  const after = cursor === undefined ? undefined : nameIn(cursor);
  const rest = after === undefined ? entries : entries.filter(({ shown }) => shown > after);
  const page = rest.slice(0, pageEntries);
  const last = rest.length > page.length ? page.at(-1) : undefined;
  const list = page.map(({ bytes }) => bytes.toString()).join(',');
  const next = last ? `"nextCursor":${JSON.stringify(cursorOf(last.shown))},` : '';
  const meta =
    Object.keys(away).length > 0 ? `,"_meta":${JSON.stringify({ [agesName]: away })}` : '';
  return resultTo(
    id,
    `{"resultType":"complete","${mergedLists[method]}":[${list}],${next}"ttlMs":${ttlMs},"cacheScope":"private"${meta}}`,
  );
}

function cursorOf(shown: string): string {
  return Buffer.from(shown).toString('base64url');
}

/** @throws {GatewayRefusal} `bad_params` */
function nameIn(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url').toString();
  if (name !== '' && cursorOf(name) === cursor) return name;
  throw new GatewayRefusal('bad_params', { detail: 'params.cursor is not one of this list' });
}

/** A notification that a list changed, on a subscription. */
export function listChanged(list: string, subscription: string): Message {
  return messageOf(
    `{"jsonrpc":"2.0","method":"notifications/${list}/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${subscription}}}}`,
  );
}
