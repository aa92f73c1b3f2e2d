import { jsonMembers } from '#jsonrpc/json-members';
import { stringAt, textAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';

/**
 * What the answer to `request` depends on besides server and account: the method, the protocol version,
 * the capabilities of the assistant, and the parameters, `_meta` aside. In the session era the first
 * ones are those of `initialize`.
 */
export function question(request: Message, initialize: Message | undefined): string {
  const { method } = request;
  const version = modernVersion(request);
  const who =
    version === undefined
      ? [
          initialize && stringAt(initialize, 'params', 'protocolVersion'),
          initialize && textAt(initialize, 'params', 'capabilities'),
        ]
      : [version, textAt(request, 'params', '_meta', 'io.modelcontextprotocol/clientCapabilities')];
  return JSON.stringify([method, ...who, method === 'initialize' ? [] : parameters(request)]);
}

function parameters({ bytes, members }: Message): [string, string][] {
  const span = members.get('params');
  return [...((span && jsonMembers(bytes, span)) ?? [])]
    .filter(([name]) => name !== '_meta')
    .map(([name, { start, end }]): [string, string] => [name, bytes.toString('utf8', start, end)])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}
