/**
 * `mcp-proxy` from stdio to Streamable HTTP. Its command carries the other way only; its library has this
 * way too, for programs such as this one. Plain JavaScript, as the floor is.
 *
 *     node mcp-proxy.mjs URL
 */
import { ServerType, startStdioServer } from 'mcp-proxy';

await startStdioServer({
  serverType: ServerType.HTTPStream,
  url: process.argv[2] ?? '',
  transportOptions: { requestInit: { headers: { 'X-API-Key': process.env.API_KEY ?? '' } } },
});
