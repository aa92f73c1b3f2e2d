import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamRequest } from '#gateway/upstream';
import { responseOf, type ResponseMessage } from './answer-message.ts';
import type { SkillFolder } from './skill-folder.ts';

/**
 * What the skills of a folder alone answer to a POST, or to the same one with another `body`.
 *
 * @throws {GatewayRefusal} `fault` when they answer with no JSON-RPC
 */
export async function askSkills(
  folder: SkillFolder,
  request: UpstreamRequest,
  body = request.body,
): Promise<ResponseMessage> {
  const { 'mcp-session-id': _, ...headers } = request.headers;
  const response = await folder.fetch(
    new Request('http://skills.invalid/mcp', {
      method: 'POST',
      headers,
      body: new Uint8Array(body ?? []),
      signal: request.signal,
    }),
  );
  const answer = {
    status: response.status,
    mediaType: response.headers.get('content-type')?.split(';')[0]?.toLowerCase() ?? '',
    sessionId: undefined,
    retryAfterSeconds: undefined,
    body: new Uint8Array(await response.arrayBuffer()),
  };
  const read = await responseOf(answer);
  if (read) return read;
  throw new GatewayRefusal('fault', { cause: new Error(`skills answered ${response.status}`) });
}
