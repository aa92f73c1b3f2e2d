import {
  errorAnswer,
  MessageError,
  readMessage,
  stringAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { listedTools, withoutTools, admittedTools, type ToolRules } from '#pipeline/tool-filter';
import { eventStream, EventTooLargeError } from '#transport/event-stream';
import { chunksOf, LocalServerError, type LocalAnswer, type LocalServer } from './local-server.ts';
import { plainAnswer } from './plain-answer.ts';

/**
 * `server` with those tools alone that `rules` admit: others are neither listed nor callable, and it never
 * hears of a call of one. The body decides, never a header.
 */
export function narrowedServer(
  server: LocalServer,
  rules: ToolRules,
  maxMessageBytes: number,
): LocalServer {
  if (rules.allow === undefined && rules.deny === undefined) return server;
  const admits = admittedTools(rules);

  function narrowed(message: Message): Message {
    const tools = message.kind === 'response' ? listedTools(message) : undefined;
    return tools ? withoutTools(message, tools, ({ name }) => admits(name)) : message;
  }

  /** An event keeps its name and id; what is no JSON-RPC can list nothing. */
  async function* narrowedEvents(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const events = eventStream(body, maxMessageBytes);
    try {
      for await (const { type, id, retryMs, data } of events) {
        const bytes = data.length > 0 ? narrowed(readMessage(data)).bytes : data;
        const lines = [
          ...(type === 'message' ? [] : [`event: ${type}\n`]),
          ...(id === undefined ? [] : [`id: ${id}\n`]),
          ...(retryMs === undefined ? [] : [`retry: ${retryMs}\n`]),
        ];
        yield Buffer.concat([Buffer.from(`${lines.join('')}data: `), bytes, Buffer.from('\n\n')]);
      }
    } catch (error) {
      if (error instanceof EventTooLargeError)
        throw new LocalServerError('too_large', `a message is over ${maxMessageBytes} bytes`);
      if (error instanceof MessageError)
        throw new LocalServerError('broken', 'an event is no JSON-RPC message', { cause: error });
      throw error;
    }
  }

  async function narrowedJson({ status, headers, body }: LocalAnswer): Promise<LocalAnswer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of chunksOf(body)) {
      bytes += chunk.length;
      if (bytes > maxMessageBytes)
        throw new LocalServerError('too_large', `a message is over ${maxMessageBytes} bytes`);
      chunks.push(chunk);
    }
    try {
      return plainAnswer(status, narrowed(readMessage(Buffer.concat(chunks))).bytes, headers);
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      throw new LocalServerError('broken', 'the answer is no JSON-RPC message', { cause: error });
    }
  }

  return {
    async send(request) {
      let message: Message | undefined;
      try {
        if (request.method === 'POST') message = readMessage(request.body ?? Buffer.alloc(0));
        if (message?.method === 'tools/call') {
          const name = stringAt(message, 'params', 'name') ?? '';
          const error = { code: -32602, message: `Unknown tool: ${name}` };
          if (!admits(name))
            return plainAnswer(200, errorAnswer(message.id ?? 'null', error).bytes);
        }
      } catch (error) {
        const problem =
          error instanceof MessageError ? error : { code: -32600, message: 'not a request' };
        return plainAnswer(400, errorAnswer('null', problem).bytes);
      }
      const answer = await server.send(request);
      const type = answer.headers['content-type'] ?? '';
      if (/^text\/event-stream\b/i.test(type))
        return { ...answer, body: narrowedEvents(chunksOf(answer.body)) };
      return message?.method === 'tools/list' && answer.status === 200
        ? narrowedJson(answer)
        : answer;
    },
    leave: async (caller) => server.leave(caller),
    reset: async () => server.reset(),
    close: async () => server.close(),
  };
}
