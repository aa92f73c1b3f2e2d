import { setTimeout as pause } from 'node:timers/promises';

import type { McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

/** A picture of one red pixel. */
export const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

const picture = { type: 'image' as const, data: png, mimeType: 'image/png' };
const words = (text: string) => ({ content: [{ type: 'text' as const, text }] });

/** The tools by which the suite tries results of every kind, progress and logging. */
export function suiteTools(server: McpServer): void {
  const tool = (name: string, act: Parameters<typeof server.registerTool>[2]) =>
    server.registerTool(name, { description: `As the suite says: ${name}` }, act);
  tool('test_simple_text', () => words('This is a simple text response for testing.'));
  tool('test_image_content', () => ({ content: [picture] }));
  tool('test_audio_content', () => ({
    content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }],
  }));
  tool('test_embedded_resource', () => ({
    content: [
      resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
    ],
  }));
  tool('test_multiple_content_types', () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      picture,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  }));
  tool('test_error_handling', () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  server.registerTool('test_tool_with_logging', {}, async ({ mcpReq }) => {
    for (const said of ['started', 'processing data', 'completed']) {
      await mcpReq.log('info', `Tool execution ${said}`);
      await pause(50);
    }
    return words('logged');
  });
  server.registerTool('test_tool_with_progress', {}, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken: progressToken ?? 0, progress, total: 100 };
      if (progressToken !== undefined) {
        await mcpReq.notify({ method: 'notifications/progress', params });
      }
      await pause(50);
    }
    return words(String(progressToken));
  });
}

/** The tools that ask their caller in the older era. */
export function suiteQuestions(server: McpServer): void {
  const asked = { prompt: z.string() };
  server.registerTool(
    'test_sampling',
    { inputSchema: z.object(asked) },
    async ({ prompt }, { mcpReq }) => {
      const content = { type: 'text' as const, text: prompt };
      const said = await mcpReq.requestSampling({
        messages: [{ role: 'user', content }],
        maxTokens: 100,
      });
      return words(`LLM response: ${JSON.stringify(said.content)}`);
    },
  );
  const message = z.object({ message: z.string() });
  server.registerTool('test_elicitation', { inputSchema: message }, async (input, { mcpReq }) => {
    const properties = {
      username: { type: 'string' as const },
      email: { type: 'string' as const },
    };
    const required = ['username', 'email'];
    const requestedSchema = { type: 'object' as const, properties, required };
    const answer = await mcpReq.elicitInput({
      mode: 'form',
      message: input.message,
      requestedSchema,
    });
    return words(`User response: ${JSON.stringify(answer)}`);
  });
  const schemas = {
    test_elicitation_sep1034_defaults: {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    },
    test_elicitation_sep1330_enums: {
      untitledSingle: { type: 'string', enum: three('option') },
      titledSingle: { type: 'string', oneOf: titled() },
      legacyEnum: { type: 'string', enum: three('opt'), enumNames: three('Option ') },
      untitledMulti: { type: 'array', items: { type: 'string', enum: three('option') } },
      titledMulti: { type: 'array', items: { anyOf: titled() } },
    },
  } as const;
  for (const [name, properties] of Object.entries(schemas)) {
    server.registerTool(name, {}, async ({ mcpReq }) => {
      const requestedSchema = { type: 'object' as const, properties: structuredClone(properties) };
      const asking = { mode: 'form', message: 'Please fill in', requestedSchema };
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- two tables of one shape
      const { action, content } = await mcpReq.elicitInput(asking as never);
      return words(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
    });
  }
}

function resource(uri: string, mimeType: string, text: string) {
  return { type: 'resource' as const, resource: { uri, mimeType, text } };
}

function three(prefix: string): string[] {
  return [1, 2, 3].map((n) => `${prefix}${n}`);
}

function titled() {
  return three('value').map((value, n) => ({ const: value, title: `Choice ${n + 1}` }));
}
