import { z } from 'zod';

const maxServers = 1000;
const maxDetailLength = 300;

const helloSchema = z.object({
  version: z.string().max(64),
  /** One for the life of the agent's process. */
  instance: z.string().min(1).max(128).optional(),
  servers: z
    .array(z.object({ name: z.string().max(63), kind: z.string().max(32) }))
    .max(maxServers),
});

/** What an agent says of itself. */
export type Hello = z.infer<typeof helloSchema>;

// Nothing but what may stand in a header goes on, least of all a line break.
const headerText = z
  .string()
  .max(1024)
  .regex(/^[\x20-\x7e]*$/);

const headSchema = z.object({
  status: z.int().min(200).max(599),
  headers: z
    .object({
      'content-type': headerText.optional(),
      'mcp-session-id': headerText.min(1).optional(),
      'retry-after': headerText.optional(),
    })
    .default({}),
});

/** The head of an agent's answer; headers that are not named here are dropped. */
export type Head = z.infer<typeof headSchema>;

export const resetCodes = [
  'cancelled',
  'unknown_server',
  'unreachable',
  'timeout',
  'too_large',
  'broken',
  'busy',
] as const;

/** Why a stream ends before its end. */
export type ResetCode = (typeof resetCodes)[number];

const resetSchema = z.object({
  code: z.enum(resetCodes).catch('broken'),
  detail: z.string().catch(''),
});

export interface Reset {
  readonly code: ResetCode;
  /** One line for a log or a page. */
  readonly detail: string;
}

/** `undefined` when it is no HELLO. */
export function readHello(payload: Buffer): Hello | undefined {
  return helloSchema.safeParse(json(payload)).data;
}

/** `undefined` when it is no HEAD. */
export function readHead(payload: Buffer): Head | undefined {
  return headSchema.safeParse(json(payload)).data;
}

/** A RESET that cannot be read is one all the same. */
export function readReset(payload: Buffer): Reset {
  const { data } = resetSchema.safeParse(json(payload));
  const detail = (data?.detail ?? '').replaceAll(/\p{C}+/gu, ' ').slice(0, maxDetailLength);
  return { code: data?.code ?? 'broken', detail };
}

/** The bytes that a CREDIT allows; `undefined` when it allows none. */
export function readCredit(payload: Buffer): number | undefined {
  if (payload.length !== 4) return undefined;
  return payload.readUInt32BE(0) || undefined;
}

function json(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
}
