import { legacyAnswer, sendJson, type RecordingUpstream } from './recording-upstream.ts';

/** From now on the upstream says this of its tool `echo`; its other one, `keep`, stays as it is. */
export function describeEcho(upstream: RecordingUpstream, description: string): void {
  upstream.answer = (request, response) => {
    if (!request.body.includes('"tools/list"')) return legacyAnswer(request, response);
    const { id }: { id: unknown } = JSON.parse(request.body.toString());
    const tools = [
      { name: 'echo', description, inputSchema: { type: 'object' } },
      { name: 'keep', description: 'Keeps.', inputSchema: { type: 'object' } },
    ];
    sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { tools } }));
  };
}
