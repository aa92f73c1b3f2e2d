import type { Expression, ExpressionBuilder, SqlBool } from 'kysely';

import type { Schema } from './schema.ts';

/** Whether a server belongs to an organization; found out once for a query, however many rows it reads. */
export function isServerOf(
  where: Pick<ExpressionBuilder<Schema, never>, 'exists' | 'selectFrom'>,
  serverId: string,
  organizationId: string,
): Expression<SqlBool> {
  return where.exists(
    where
      .selectFrom('mcp_server')
      .select('mcp_server.id')
      .where('mcp_server.id', '=', serverId)
      .where('mcp_server.organization_id', '=', organizationId),
  );
}
