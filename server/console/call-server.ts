import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { z } from 'zod';
import type { GatewayAnswer, GatewayRequest } from '#gateway/request';
import { laidOutJson } from '#tools/definition';

const maxAnswerBytes = 1024 * 1024;
const timeoutMs = 30_000;

/** A call that a person makes from a page of the dashboard. */
interface ConsoleCall {
  /** The page has just checked session and membership; the gateway checks again. */
  readonly userId: string;
  readonly organization: string;
  readonly server: string;
  readonly address: string;
  /** The `X-Request-Id` of the page. */
  readonly requestId: string;
  readonly method: string;
  /** Whether the page itself calls, to show the person what they can call. Usage does not count such a call. */
  readonly isForPage?: boolean;
  readonly params: Readonly<Record<string, unknown>>;
}

/** The JSON-RPC response as text, or why there is none. */
type ConsoleAnswer =
  | { readonly outcome: 'answered'; readonly text: string }
  | { readonly outcome: 'too-large' | 'late' | 'broken' };

/** Never rejects; errors are values. */
export type CallServer = (call: ConsoleCall) => Promise<ConsoleAnswer>;

/**
 * Sends a person's call through the gateway like any caller's, with all checks. Waits at most thirty seconds and
 * reads at most a mebibyte.
 */
export function consoleCalls(gateway: {
  handle(request: GatewayRequest): Promise<GatewayAnswer>;
}): CallServer {
  return async ({
    userId,
    organization,
    server,
    address,
    requestId,
    method,
    params,
    isForPage,
  }) => {
    const gone = new AbortController();
    const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = gateway
      .handle({
        id: requestId,
        address,
        method: 'POST',
        organization,
        server,
        headers: { 'content-type': 'application/json' },
        rawHeaders: [],
        proved: { type: 'person', userId },
        isForPage,
        readBody: async () => Buffer.from(message),
        gone: gone.signal,
      })
      .then((given) => read(given).finally(given.sent))
      .catch(() => ({ outcome: 'broken' }) as const);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<ConsoleAnswer>((resolve) => {
      timer = setTimeout(() => resolve({ outcome: 'late' }), timeoutMs);
    });
    const first = await Promise.race([answer, late]);
    clearTimeout(timer);
    if (first.outcome !== 'answered') gone.abort();
    return first;
  };
}

async function read({ body }: GatewayAnswer): Promise<ConsoleAnswer> {
  if (body === undefined) return { outcome: 'broken' };
  if (typeof body === 'string') return { outcome: 'answered', text: body };
  const gathered = new GatheredBytes();
  for await (const chunk of body instanceof Uint8Array ? [body] : body) {
    gathered.add(chunk);
    if (gathered.length > maxAnswerBytes) return { outcome: 'too-large' };
  }
  return { outcome: 'answered', text: gathered.whole().toString('utf8') };
}

const mostPages = 10;

const toolSchema = z.object({
  name: z.string(),
  title: z.string().optional().catch(undefined),
  description: z.string().optional().catch(undefined),
  inputSchema: z.record(z.string(), z.unknown()).catch({}),
});

const listSchema = z.object({
  tools: z.array(toolSchema),
  nextCursor: z.string().optional().catch(undefined),
});

/** A tool as its MCP server describes it. MCP 2025-11-25 tools, "Tool" */
export type Tool = z.output<typeof toolSchema>;

/** The tools, or the error that was returned instead. */
export type ToolList = { readonly outcome: 'tools'; readonly tools: readonly Tool[] } | AnswerError;

/** The tools that this person may call, from at most ten pages. */
export async function listTools(
  caller: Omit<ConsoleCall, 'method' | 'params' | 'isForPage'>,
  callServer: CallServer,
): Promise<ToolList> {
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const list = { ...caller, method: 'tools/list', params, isForPage: true };
    const answer = answerResult(await callServer(list));
    if (answer.outcome === 'error') return answer;
    const { data } = listSchema.safeParse(answer.result);
    if (!data) return { outcome: 'error', message: 'The list of tools could not be read.' };
    tools.push(...data.tools);
    cursor = data.nextCursor;
    if (cursor === undefined) break;
  }
  return { outcome: 'tools', tools };
}

const answerSchema = z.union([
  z.object({ result: z.record(z.string(), z.unknown()) }),
  z.object({ error: z.object({ code: z.number(), message: z.string() }) }),
]);

export interface AnswerError {
  readonly outcome: 'error';
  /** A sentence. */
  readonly message: string;
  /** The code of the JSON-RPC error, if there is one. JSON-RPC 2.0 §5.1 */
  readonly code?: number;
}

type AnswerResult =
  | { readonly outcome: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | AnswerError;

export function answerResult(answer: ConsoleAnswer): AnswerResult {
  switch (answer.outcome) {
    case 'late':
      return error('No response within 30 seconds. The call may still be running.');
    case 'too-large':
      return error('The response is larger than 1 MiB, too large to show here.');
    case 'broken':
      return error('The response ended early.');
    case 'answered':
      return parsed(answer.text);
  }
}

function parsed(text: string): AnswerResult {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return error('The response is not JSON.');
  }
  const { data } = answerSchema.safeParse(value);
  if (!data) return error('The response is not a JSON-RPC response.');
  if ('result' in data) return { outcome: 'result', result: data.result };
  const { code, message } = data.error;
  return { ...error(sentence(message)), code };
}

function error(message: string): AnswerError {
  return { outcome: 'error', message };
}

/**
 * Turns the message of the gateway or the MCP server, which may be empty, into a sentence with a capital and a
 * period.
 */
function sentence(message: string): string {
  const text = message.trim();
  if (text === '') return 'The server responded with an error without a message.';
  const begun = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

const mostCharacters = 20_000;
const mostParts = 20;

/** One part of a result, safe to show. */
interface ResultPart {
  readonly title: string;
  /** Plain text of at most 20,000 characters. */
  readonly text: string;
  readonly isCut: boolean;
}

/** A tool's result as its page shows it. */
export interface ResultView {
  readonly isError: boolean;
  /** One sentence. */
  readonly summary: string;
  /** The code of the JSON-RPC error, if that is what was returned. */
  readonly code: number | undefined;
  readonly parts: readonly ResultPart[];
}

const resultSchema = z.object({
  isError: z.boolean().catch(false),
  structuredContent: z.unknown().optional(),
  content: z
    .array(z.looseObject({ type: z.string(), text: z.string().optional().catch(undefined) }))
    .catch([]),
});

/** Describes a tool's result in words and parts. MCP 2025-11-25 tools, "Tool Result" */
export function toResultView(answer: AnswerResult): ResultView {
  if (answer.outcome === 'error') {
    return { isError: true, summary: answer.message, code: answer.code, parts: [] };
  }
  const { isError, structuredContent, content } = resultSchema.parse(answer.result);
  const texts = content
    .slice(0, mostParts)
    .map((part) =>
      part.type === 'text' && part.text !== undefined
        ? shown('Text', part.text)
        : shown(`Content of type ${part.type}`, pretty(part)),
    );
  const structured =
    structuredContent === undefined ? [] : [shown('Structured content', pretty(structuredContent))];
  const whole = content.length === 0 && structured.length === 0;
  const parts = whole ? [shown('JSON', pretty(answer.result))] : [...texts, ...structured];
  const summary = isError ? 'The tool reported an error.' : 'Result';
  return { isError, summary, code: undefined, parts };
}

function shown(title: string, text: string): ResultPart {
  return { title, text: text.slice(0, mostCharacters), isCut: text.length > mostCharacters };
}

function pretty(value: unknown): string {
  return laidOutJson(value, mostCharacters);
}
