import { McpServer, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { SlowCalls } from './slow-calls.ts';
import { memo, text, toolSchemas } from './tool-schemas.ts';

/** A server of the SDK's second generation, for a request of either era. */
export function modernServer(slow: SlowCalls, era: 'legacy' | 'modern'): McpServer {
  const server = new McpServer(
    { name: 'modern', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  const { echo, add, progress, ask, big } = toolSchemas;

  server.registerTool('echo', { inputSchema: echo }, (args) => text(args.text));
  server.registerTool('add', { inputSchema: add }, ({ a, b }) => text(String(a + b)));
  server.registerTool('big', { inputSchema: big }, ({ bytes }) => text('x'.repeat(bytes)));
  server.registerTool('slow', { inputSchema: toolSchemas.slow }, async ({ ms }, { mcpReq }) => {
    await slow.call(ms, mcpReq.signal);
    return text('done');
  });
  server.registerTool('progress', { inputSchema: progress }, async ({ steps }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return text('done');
    for (let step = 1; step <= steps; step++) {
      const params = { progressToken, progress: step, total: steps };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text('done');
  });
  server.registerTool('ask', { inputSchema: ask }, async ({ question }, { mcpReq }) => {
    const content = { type: 'text' as const, text: question };
    const params = { messages: [{ role: 'user' as const, content }], maxTokens: 100 };
    if (era === 'legacy') return text(said(await mcpReq.requestSampling(params)));
    const answer = inputResponse(mcpReq.inputResponses, 'answer');
    if (answer.kind === 'sampling')
      return text(`${said(answer.result)} (${String(mcpReq.requestState())})`);
    return inputRequired({
      inputRequests: { answer: inputRequired.createMessage(params) },
      requestState: `asked: ${question}`,
    });
  });
  server.registerResource('greeting', memo.uri, {}, () => ({ contents: [memo] }));
  server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }],
  }));
  return server;
}

function said({ content }: { content: unknown }): string {
  return z.object({ text: z.string() }).parse(Array.isArray(content) ? content[0] : content).text;
}
