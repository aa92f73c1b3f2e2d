import { insertAuditEvent } from '#db/audit';
import { noteToolDefinitions } from '#db/tool-definitions';
import type { Db } from '#db/transaction';
import type { ServerRecord } from '#db/servers';
import type { Clock } from '#clock/clock';
import { eventsIn, wholeBody } from '#gateway/answers';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { messageWithoutTools, toolsIn, unreadableTools } from '#gateway/tool-list';
import type { UpstreamAnswer } from '#gateway/upstream';
import { isError, scanMessage } from 'latchkey-mcp/message';
import { SseEventTooLarge, messageEvent } from 'latchkey-mcp/sse';
import { type ToolDefinition, toolDefinition } from './tool-definition.ts';

/** A longer list would be useless. */
const mostBytes = 4 * 1024 * 1024;

export interface PinnedToolsPorts {
  readonly watch: Pick<ToolWatch, 'look'>;
  /** Called when a list could not be compared with what was accepted; the call continues. */
  readonly failed: (error: unknown) => void;
}

/** Filters an upstream's answer to `tools/list` down to the tools that the caller may see. */
export type PinTools = (answer: UpstreamAnswer, server: ServerRecord) => Promise<UpstreamAnswer>;

/**
 * Compares every list of tools with what was accepted before a caller gets it. Anything ambiguous is refused, because
 * a client might find tools in it that were not checked. If changed tools are only flagged, the list passes
 * unchanged. If they are withheld, the list passes without them, and not at all if the change could not be recorded.
 */
export function pinnedTools({ watch, failed }: PinnedToolsPorts): PinTools {
  return pinned;

  async function pinned(answer: UpstreamAnswer, server: ServerRecord): Promise<UpstreamAnswer> {
    const { status, mediaType, body } = answer;
    // A later answer on another stream would not be checked.
    if (status === 202 || status === 204) throw unreadableTools('the response does not contain it');
    if (status === 200 && mediaType === 'text/event-stream')
      return { ...answer, body: events(body, server) };
    const isRefusal = status === 400 || status === 404;
    if (mediaType !== 'application/json' || !(isRefusal || status === 200)) return answer;
    const message = await whole(body);
    if (!isRefusal) return { ...answer, body: await list(message, server) };
    return isError(message)
      ? { ...answer, body: message }
      : { ...answer, mediaType: '', body: new Uint8Array() };
  }

  /**
   * The parsed messages, each in a newly written event, because some parsers would find another message in what
   * others read as a comment.
   */
  async function* events(
    body: UpstreamAnswer['body'],
    server: ServerRecord,
  ): AsyncGenerator<Uint8Array> {
    let isAnswered = false;
    for await (const { data } of withinLimit(eventsIn(body, mostBytes))) {
      if (isAnswered || data.length === 0) continue;
      const message = Buffer.from(data);
      const scan = scanMessage(message);
      isAnswered = scan.outcome === 'refused' || scan.envelope.kind === 'response';
      yield messageEvent(isAnswered ? await list(message, server) : message);
    }
    // The caller must not continue on another stream, where nothing is checked.
    if (!isAnswered) {
      throw new GatewayRefusal('upstream_failed', {
        detail: 'its response ended before the result',
      });
    }
  }

  async function list(message: Buffer, server: ServerRecord): Promise<Buffer> {
    const tools = listedTools(message);
    if (!tools) return message;
    const look = watch.look(server, tools);
    if (server.changedTools === 'flag') {
      look.catch(failed);
      return message;
    }
    const withheld = await look.catch((cause: unknown) => {
      throw new GatewayRefusal('unavailable', { cause });
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
  const isTooLarge = error instanceof GatewayRefusal && error.cause instanceof SseEventTooLarge;
  return isTooLarge ? unreadableTools(`it is larger than ${mostBytes} bytes`) : error;
}

export interface ToolWatchPorts {
  readonly db: Db;
  readonly clock: Clock;
}

const mostServers = 1_000;
/** A server can invent names endlessly, so of a longer list each name is compared with the database every time. */
const mostSeen = 5_000;
const maxRecorded = 10_000;

/**
 * Compares every list of tools with the accepted definitions. A tool that changes behind its name is a classic attack
 * on assistants: it is recorded in the audit log, and withheld if the server's administrators want that.
 */
export class ToolWatch {
  readonly #ports: ToolWatchPorts;
  /** The digests seen last, by server and name: an unchanged one needs no further check. */
  readonly #seen = new Map<string, Map<string, string>>();
  /** Changes that were recorded, in case a server shows different tools to different callers. */
  readonly #recorded = new Set<string>();

  constructor(ports: ToolWatchPorts) {
    this.#ports = ports;
  }

  /** Checks the tools of an answer to `tools/list`. Returns the names of those that differ from what was accepted. */
  async look(server: ServerRecord, tools: readonly ToolDefinition[]): Promise<readonly string[]> {
    const seen = this.#seenOf(server.id);
    if (tools.every(({ name, digest }) => seen.get(name) === digest)) return server.withheldTools;
    const { db, clock } = this.#ports;
    const { changed, open } = await noteToolDefinitions(db, server.id, tools, clock.now());
    for (const tool of changed) await this.#tell(server, tool);
    if (seen.size + tools.length > mostSeen) seen.clear();
    for (const { name, digest } of tools.slice(0, mostSeen)) seen.set(name, digest);
    return tools.map(({ name }) => name).filter((name) => !open.includes(name));
  }

  #seenOf(serverId: string): Map<string, string> {
    const known = this.#seen.get(serverId);
    if (known) return known;
    if (this.#seen.size >= mostServers) this.#seen.clear();
    const made = new Map<string, string>();
    this.#seen.set(serverId, made);
    return made;
  }

  async #tell(server: ServerRecord, { name, digest }: ToolDefinition): Promise<void> {
    const { organization, id } = server;
    const change = `${id} ${digest} ${name}`;
    if (this.#recorded.has(change)) return;
    await insertAuditEvent(this.#ports.db, {
      at: this.#ports.clock.now(),
      actor: 'system',
      organization,
      action: 'tool.changed',
      target: `tool:${organization}/${server.name}/${name}`.slice(0, 200),
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
    if (this.#recorded.size >= maxRecorded) this.#recorded.clear();
    this.#recorded.add(change);
  }
}

/**
 * The tools in an answer to `tools/list`; `undefined` for an error.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, also for a tool that could not be compared later
 */
export function listedTools(message: Buffer): ToolDefinition[] | undefined {
  return toolsIn(message)?.tools.map(({ span }) => {
    const tool = toolDefinition(JSON.parse(message.toString('utf8', span.start, span.end)));
    if (!tool) throw unreadableTools('the name of a tool is empty or too long');
    return tool;
  });
}
