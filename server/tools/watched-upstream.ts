import { responseIn, wholeBody } from '#gateway/event-stream';
import { messageWithoutTools } from '#gateway/hidden-tools';
import { scanMessage } from '#gateway/json-scan';
import type { Upstream, UpstreamAnswer } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import { passing } from './passing.ts';
import type { ToolWatch } from './tool-watch.ts';

export interface WatchedPorts {
  readonly watch: Pick<ToolWatch, 'look'>;
  /** What was listed could not be looked at; the call goes on. */
  readonly failed: (error: unknown) => void;
}

/**
 * The same upstream, whose lists of tools are looked at. Where changed tools are only flagged, a list passes as it
 * comes; where they are withheld, it is read whole first, and what cannot be read or written down is refused.
 */
export function watchedUpstream(
  upstream: Upstream,
  server: ServerRecord,
  { watch, failed }: WatchedPorts,
): Upstream {
  return {
    async send(request) {
      const answer = await upstream.send(request);
      const { body } = request;
      if (request.method !== 'POST' || answer.status !== 200 || !body || !asksForTools(body))
        return answer;
      if (server.changedTools === 'withhold') return withheld(answer);
      const look = (bytes: Buffer) => {
        read({ ...answer, body: bytes })
          .then((message) => watch.look(server, message))
          .catch(failed);
      };
      return { ...answer, body: passing(answer.body, look) };
    },
  };

  async function withheld(answer: UpstreamAnswer): Promise<UpstreamAnswer> {
    const message = await read(answer);
    const body = messageWithoutTools(message, await watch.look(server, message));
    return { ...answer, mediaType: 'application/json', body };
  }
}

async function read({ mediaType, body }: UpstreamAnswer): Promise<Buffer> {
  const isStream = mediaType === 'text/event-stream';
  const bytes = isStream ? await responseIn(body) : await wholeBody(body);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A longer body with an escape in it is no list of tools that any client would ask for like that. */
const shortBytes = 16 * 1024;

function asksForTools(body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const may = bytes.includes('tools/list') || (bytes.length < shortBytes && bytes.includes('\\'));
  if (!may) return false;
  const scan = scanMessage(bytes);
  return scan.outcome === 'message' && scan.envelope.method === 'tools/list';
}
