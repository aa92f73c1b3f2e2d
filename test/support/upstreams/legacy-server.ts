import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { CreateMessageResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import type { SlowCalls } from './slow-calls.ts';
import { memo, text, toolSchemas } from './tool-schemas.ts';

/** A server of the SDK's first generation: it knows nothing of 2026-07-28. */
export function legacyServer(slow: SlowCalls): McpServer {
  const server = new McpServer(
    { name: 'legacy', version: '1.0.0' },
    { capabilities: { logging: {} } },
  );
  const { echo, add, progress, ask, big } = toolSchemas;

  server.registerTool('echo', { inputSchema: echo.shape }, (args) => text(args.text));
  server.registerTool('add', { inputSchema: add.shape }, ({ a, b }) => text(String(a + b)));
  server.registerTool('big', { inputSchema: big.shape }, ({ bytes }) => text('x'.repeat(bytes)));
  server.registerTool(
    'slow',
    { inputSchema: toolSchemas.slow.shape },
    async ({ ms }, { signal }) => {
      await slow.call(ms, signal);
      return text('done');
    },
  );
  server.registerTool('progress', { inputSchema: progress.shape }, async ({ steps }, extra) => {
    const progressToken = extra._meta?.progressToken;
    if (progressToken === undefined) return text('done');
    for (let step = 1; step <= steps; step++) {
      const params = { progressToken, progress: step, total: steps };
      await extra.sendNotification({ method: 'notifications/progress', params });
    }
    return text('done');
  });
  server.registerTool('ask', { inputSchema: ask.shape }, async ({ question }, extra) => {
    const content = { type: 'text' as const, text: question };
    const params = { messages: [{ role: 'user' as const, content }], maxTokens: 100 };
    const request = { method: 'sampling/createMessage' as const, params };
    const answer = await extra.sendRequest(request, CreateMessageResultSchema);
    return text(answer.content.type === 'text' ? answer.content.text : answer.content.type);
  });
  server.registerResource('greeting', memo.uri, {}, () => ({ contents: [memo] }));
  server.registerPrompt('greet', { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }],
  }));
  return server;
}
