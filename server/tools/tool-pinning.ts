import { createHash } from 'node:crypto';
import { type AuditEvent, insertAuditEvent } from '#db/audit';
import { type ComparedTools, noteToolDefinitions, type ToolDefinition } from '#db/tool-definitions';
import type { Db } from '#db/transaction';
import type { Target } from '#model/endpoints';
import type { Clock, EpochSeconds } from '#model/clock';
import { eventsIn, wholeBody } from '#gateway/answers';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { LimitedMap } from '#model/limited-map';
import { messageWithoutTools, toolsIn, unreadableTools } from '#gateway/tool-list';
import type { UpstreamAnswer } from '#gateway/upstream';
import { isError, scanMessage } from 'latchkey-mcp/message';
import { SseEventTooLarge, messageEvent } from 'latchkey-mcp/sse';
import { exactJson } from './exact-json.ts';
import { toolDefinition } from './tool-definition.ts';

/** The longest list of tools. No assistant could use a longer one. */
const mostBytes = 4 * 1024 * 1024;

export interface PinnedToolsPorts {
  readonly watch: Pick<ToolWatch, 'look'>;
  /** Called when a list could not be compared with what was accepted; the call continues. */
  readonly failed: (error: unknown) => void;
}

/** Filters an upstream's answer to `tools/list` down to the tools that the caller may see. */
export type PinTools = (answer: UpstreamAnswer, target: Target) => Promise<UpstreamAnswer>;

/**
 * Compares every list of tools with what was accepted before a caller gets it. Anything ambiguous is refused, because
 * a client might find tools in it that were not checked. The list passes without the tools that are withheld. If the server
 * withholds changed tools and a change could not be recorded, the list does not pass at all.
 */
export function pinnedTools({ watch, failed }: PinnedToolsPorts): PinTools {
  return pinned;

  async function pinned(answer: UpstreamAnswer, target: Target): Promise<UpstreamAnswer> {
    const { status, mediaType, body } = answer;
    // Refused, because a later answer on another stream would not be checked.
    if (status === 202 || status === 204) throw unreadableTools('the response does not contain it');
    if (status === 200 && mediaType === 'text/event-stream')
      return { ...answer, body: events(body, target) };
    const isRefusal = status === 400 || status === 404;
    if (mediaType !== 'application/json' || !(isRefusal || status === 200)) return answer;
    const message = await whole(body);
    if (!isRefusal) return { ...answer, body: await list(message, target) };
    return isError(message)
      ? { ...answer, body: message }
      : { ...answer, mediaType: '', body: new Uint8Array() };
  }

  /**
   * The parsed messages, each in a newly written event, because some parsers would find another message in what
   * others read as a comment.
   */
  async function* events(body: UpstreamAnswer['body'], target: Target): AsyncGenerator<Uint8Array> {
    let isAnswered = false;
    for await (const { data } of withinLimit(eventsIn(body, mostBytes))) {
      if (isAnswered || data.length === 0) continue;
      const message = Buffer.from(data);
      const scan = scanMessage(message);
      isAnswered = scan.outcome === 'refused' || scan.envelope.kind === 'response';
      yield messageEvent(isAnswered ? await list(message, target) : message);
    }
    // The caller must not continue on another stream, where nothing is checked.
    if (!isAnswered) {
      throw new GatewayRefusal('upstream_broke_off', {
        detail: 'its response ended before the result',
      });
    }
  }

  async function list(message: Buffer, target: Target): Promise<Buffer> {
    const tools = listedTools(message);
    if (!tools) return message;
    const withheld = await watch.look(target, tools).catch((cause: unknown) => {
      if (target.changedTools === 'withhold') throw new GatewayRefusal('unavailable', { cause });
      failed(cause);
      return [];
    });
    return messageWithoutTools(message, withheld);
  }
}

async function whole(body: UpstreamAnswer['body']): Promise<Buffer> {
  try {
    return await wholeBody(body, mostBytes);
  } catch (error) {
    throw limitIn(error);
  }
}

async function* withinLimit<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    throw limitIn(error);
  }
}

function limitIn(error: unknown): unknown {
  const cause = error instanceof GatewayRefusal ? error.cause : undefined;
  return cause instanceof SseEventTooLarge
    ? unreadableTools(`it is larger than ${cause.limit}`)
    : error;
}

export interface ToolWatchPorts {
  readonly db: Db;
  readonly clock: Clock;
}

const maxRecorded = 10_000;
/** How many changes of one server get an audit entry each day, so that a hostile server cannot fill the disk. */
const mostChangesADay = 1_000;
const maxServers = 10_000;
const daySeconds = 86_400;

/** An entry of the audit log, and the key that identifies the change. */
interface Noted {
  readonly key: string;
  readonly event: AuditEvent;
}

/**
 * Compares every list of tools with the accepted definitions. A tool that changes behind its name is a classic attack
 * on assistants: it is recorded in the audit log, and withheld if the server's administrators chose that. A server's tools
 * beyond the number that is remembered are always withheld, because they could not be compared later.
 */
export class ToolWatch {
  readonly #ports: ToolWatchPorts;
  /** Recorded changes, oldest first. A server that shows different tools to different callers would cause them again and again. */
  readonly #recorded = new LimitedMap<string, true>(maxRecorded);
  /** How many changes of a server were recorded on a day. */
  readonly #ofDay = new LimitedMap<string, { readonly day: number; readonly count: number }>(
    maxServers,
  );

  constructor(ports: ToolWatchPorts) {
    this.#ports = ports;
  }

  /** How many recorded changes are remembered. */
  get recorded(): number {
    return this.#recorded.size;
  }

  /** Checks the tools of an answer to `tools/list`. Returns the names of those that no caller may see. */
  async look(target: Target, tools: readonly ToolDefinition[]): Promise<readonly string[]> {
    const { db, clock } = this.#ports;
    const now = clock.now();
    let noted: readonly Noted[] = [];
    const found = await noteToolDefinitions(db, target.id, tools, now, async (tx, result) => {
      noted = this.#unrecorded(target, result, now);
      for (const { event } of noted) await insertAuditEvent(tx, event);
    });
    this.#remember(target, noted, now);
    const { rule, differing, beyond } = found;
    return rule === 'flag' ? beyond : [...beyond, ...differing];
  }

  /** The changes in a comparison that have not been recorded yet. */
  #unrecorded(
    { id, organization, name: server }: Target,
    { changed, beyond }: ComparedTools,
    now: EpochSeconds,
  ): readonly Noted[] {
    const day = dayOf(now);
    const place = `${organization}/${server}`;
    const noted = (what: string, action: string, target: string): Noted => ({
      key: createHash('sha256').update(`${id} ${what}`).digest('base64url'),
      event: {
        at: now,
        actor: 'system',
        organization,
        action,
        target: target.slice(0, 200),
        address: undefined,
        requestId: undefined,
        outcome: 'done',
      },
    });
    const isNew = ({ key }: Noted) => !this.#recorded.has(key);
    const changes = changed
      .map(({ name, digest }) => noted(`${digest} ${name}`, changeAction, `tool:${place}/${name}`))
      .filter(isNew);
    const left = Math.max(0, mostChangesADay - this.#countOf(id, day));
    const others = [
      ...(changes.length > left
        ? [noted(`often ${day}`, 'tool.changed-often', `server:${place}`)]
        : []),
      ...(beyond.length > 0 ? [noted(`day ${day}`, 'tool.limit', `server:${place}`)] : []),
    ];
    return [...changes.slice(0, left), ...others.filter(isNew)];
  }

  #remember({ id }: Target, noted: readonly Noted[], now: EpochSeconds): void {
    for (const { key } of noted) this.#recorded.set(key, true);
    const changes = noted.filter(({ event: { action } }) => action === changeAction).length;
    if (changes === 0) return;
    const day = dayOf(now);
    this.#ofDay.set(id, { day, count: this.#countOf(id, day) + changes });
  }

  #countOf(targetId: string, day: number): number {
    const known = this.#ofDay.get(targetId);
    return known?.day === day ? known.count : 0;
  }
}

const changeAction = 'tool.changed';

function dayOf(now: EpochSeconds): number {
  return Math.floor(now / daySeconds);
}

/**
 * The tools in an answer to `tools/list`; `undefined` for an error.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, also for a tool that could not be compared later
 */
export function listedTools(message: Buffer): ToolDefinition[] | undefined {
  return toolsIn(message)?.tools.map(({ span }) => {
    const tool = toolDefinition(exactJson(message.toString('utf8', span.start, span.end)));
    if (!tool) throw unreadableTools('the name of a tool is empty, too long or not text');
    return tool;
  });
}
