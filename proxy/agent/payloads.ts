import type { TunnelRequest } from './responder.ts';

/** What the dashboard bound to this agent. */
export type Bound = { organization: string; agent: string; servers: readonly string[] };

/** What OPEN asks for; the body comes behind it. */
export type Opening = Pick<TunnelRequest, 'server' | 'method' | 'headers' | 'caller'>;

const forwarded =
  /^(?:content-type|accept|last-event-id|traceparent|tracestate|mcp-(?:session-id|protocol-version|method|name)|mcp-param-[\w-]+)$/;
const answered = new Set(['content-type', 'mcp-session-id', 'retry-after']);

/** `undefined` when it cannot be read. */
export function readBound(payload: Buffer): Bound | undefined {
  const { organization, agent, servers } = readObject(payload);
  if (typeof organization !== 'string' || typeof agent !== 'string') return undefined;
  if (!Array.isArray(servers)) return undefined;
  const names = servers.filter((name) => typeof name === 'string');
  return { organization, agent, servers: names };
}

/** The caller that a LEFT names; `undefined` when it cannot be read. */
export function readLeft(payload: Buffer): string | undefined {
  const { caller } = readObject(payload);
  return typeof caller === 'string' && caller !== '' ? caller : undefined;
}

/** `undefined` when it cannot be read. Headers that do not belong in a tunnel are dropped. */
export function readOpen(payload: Buffer): Opening | undefined {
  const { server, method, headers, caller } = readObject(payload);
  if (typeof server !== 'string' || typeof caller !== 'string' || caller === '') return undefined;
  if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') return undefined;
  const kept = texts(headers).filter(([name]) => forwarded.test(name));
  return { server, method, caller, headers: Object.fromEntries(kept) };
}

export function answerHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => answered.has(name)));
}

/** The code that a RESET gives, for the log. */
export function readReset(payload: Buffer): string {
  const { code } = readObject(payload);
  return typeof code === 'string' ? code.slice(0, 40) : '';
}

function texts(value: unknown): [string, string][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, text]): [string, string][] =>
    typeof text === 'string' && !/[\r\n\0]/.test(text) ? [[name, text]] : [],
  );
}

function readObject(payload: Buffer): Partial<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(payload.toString('utf8'));
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
