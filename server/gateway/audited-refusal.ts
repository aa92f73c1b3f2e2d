import type { RepeatableRefusal } from '#audit/counted-refusals';
import type { GatewayRequest } from './exchange.ts';
import type { GatewayRefusal, RefusalCode } from './gateway-refusal.ts';

/**
 * What a caller was not allowed, rather than what it got wrong or what broke; and what its MCP server said that may hide
 * tools from whoever looks after it.
 */
const audited: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'bad_credential',
  'two_credentials',
  'insufficient_scope',
  'foreign_origin',
  'unknown_tool',
  'not_theirs',
  'too_many_requests',
  'unreadable_tools',
]);

/**
 * What the audit log says of a refused call; `undefined` for one that is of no interest there. Coming
 * without a credential is how a client learns where to get one.
 */
export function auditedRefusal(
  { code }: GatewayRefusal,
  { id, organization, server, address }: GatewayRequest,
  principal: string | undefined,
): RepeatableRefusal | undefined {
  if (!audited.has(code)) return undefined;
  return {
    actor: principal ?? 'nobody',
    organization,
    action: `call.${code.replaceAll('_', '-')}`,
    target: `${organization}/${server}`,
    address,
    requestId: id,
  };
}
