import { legacyAnswer, sendJson, type RecordingUpstream } from './recording-upstream.ts';

/** Makes the upstream describe its tool `echo` like this from now on; its other tool, `keep`, does not change. */
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
