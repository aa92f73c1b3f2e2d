import {
  createMcpHandler,
  inputRequired,
  inputResponse,
  McpServer,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

import { fetchHandle } from '../fetch-handle.ts';
import { recordingServer, type RecordingServer } from '../recording-server.ts';
import { text } from './tool-schemas.ts';

/** A server of the modern era alone, whose tool `fill` has a person fill in a form, and whose tool `place` wants its argument in a header too. */
export async function formUpstream(): Promise<RecordingServer> {
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: 'forms', version: '1' });
      server.registerTool('fill', {}, ({ mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, 'form');
        if (answer.kind !== 'missing') return text(JSON.stringify(mcpReq.inputResponses));
        const requestedSchema = z.object({ name: z.string() });
        const form = inputRequired.elicit({ message: 'Who are you?', requestedSchema });
        return inputRequired({ inputRequests: { form } });
      });
      const region = z.string().meta({ 'x-mcp-header': 'Region' });
      server.registerTool('place', { inputSchema: z.object({ region }) }, (args) =>
        text(`in ${args.region}`),
      );
      return server;
    },
    { legacy: 'reject' },
  );
  const front = await recordingServer(fetchHandle(handler));
  return {
    ...front,
    async close() {
      await handler.close();
      await front.close();
    },
  };
}
