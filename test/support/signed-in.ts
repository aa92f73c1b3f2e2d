import { insertSession } from '#server/db/sessions';
import type { Db } from '#server/db/transaction';

/** The credential of a person: a browser session that does not expire during a test. */
export async function signedIn(db: Db, userId: string) {
  const id = `session_${crypto.randomUUID()}`;
  const used = { createdAt: 0, usedAt: 9_000_000_000, expiresAt: 9_000_000_000 };
  const browser = { address: '', userAgent: '', factors: 1 } as const;
  await insertSession(db, { id, tokenHash: id, userId, ...used, ...browser });
  return { type: 'session', id } as const;
}
