import type { GatewayRequest } from './exchange.ts';

/**
 * Whether a caller of the legacy era knows events without a message: older clients take an empty one for
 * broken JSON.
 *
 * MCP 2025-11-25 transports, "Sending Messages to the Server"
 */
export function takesPriming({ headers }: GatewayRequest): boolean {
  const version = headers['mcp-protocol-version'];
  return typeof version === 'string' && version >= '2025-11-25';
}
