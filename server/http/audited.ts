import type { FastifyRequest } from 'fastify';

import type { AuditLog } from '#audit/audit-log';

interface Auditing {
  readonly audit: Pick<AuditLog, 'append'>;
}

/** The same ports, with an audit log that knows where a request came from. */
export function audited<Ports extends Auditing>(
  { ip: address, id: requestId }: FastifyRequest,
  ports: Ports,
): Ports {
  const { audit } = ports;
  return { ...ports, audit: { append: (event) => audit.append({ ...event, address, requestId }) } };
}
