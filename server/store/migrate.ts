import { sql, type Kysely } from 'kysely';

import { credentials } from './migrations/0001-credentials.ts';
import { people } from './migrations/0002-people.ts';
import { grants } from './migrations/0003-grants.ts';
import { memberships } from './migrations/0004-memberships.ts';
import { administration } from './migrations/0005-administration.ts';
import { usage } from './migrations/0006-usage.ts';
import { groups } from './migrations/0007-groups.ts';
import { secondFactors } from './migrations/0008-second-factors.ts';
import { longLists } from './migrations/0009-long-lists.ts';
import { tokenFactors } from './migrations/0010-token-factors.ts';
import { toolDefinitions } from './migrations/0011-tool-definitions.ts';
import { upstreamAccess } from './migrations/0012-upstream-access.ts';
import { serverSettings } from './migrations/0013-server-settings.ts';
import { upstreamRegistrations } from './migrations/0014-upstream-registrations.ts';
import { webhooks } from './migrations/0015-webhooks.ts';
import { auditInsertions } from './migrations/0016-audit-insertions.ts';
import { knownBrowsers } from './migrations/0017-known-browsers.ts';
import { upstreamHeaders } from './migrations/0018-upstream-headers.ts';
import { authorization } from './migrations/0019-authorization.ts';
import type { Schema } from './schema.ts';

/** Every migration there ever was, oldest first; a name, once released, keeps its statements. */
const migrations: ReadonlyArray<{ name: string; statements: readonly string[] }> = [
  { name: '0001-credentials', statements: credentials },
  { name: '0002-people', statements: people },
  { name: '0003-grants', statements: grants },
  { name: '0004-memberships', statements: memberships },
  { name: '0005-administration', statements: administration },
  { name: '0006-usage', statements: usage },
  { name: '0007-groups', statements: groups },
  { name: '0008-second-factors', statements: secondFactors },
  { name: '0009-long-lists', statements: longLists },
  { name: '0010-token-factors', statements: tokenFactors },
  { name: '0011-tool-definitions', statements: toolDefinitions },
  { name: '0012-upstream-access', statements: upstreamAccess },
  { name: '0013-server-settings', statements: serverSettings },
  { name: '0014-upstream-registrations', statements: upstreamRegistrations },
  { name: '0015-webhooks', statements: webhooks },
  { name: '0016-audit-insertions', statements: auditInsertions },
  { name: '0017-known-browsers', statements: knownBrowsers },
  { name: '0018-upstream-headers', statements: upstreamHeaders },
  { name: '0019-authorization', statements: authorization },
];

/**
 * Brings the database to the newest schema, in one transaction: processes that start together do it
 * once. A database that knows a migration which this program does not is from a newer Latchkey, and
 * refused rather than guessed at.
 */
export async function migrate(db: Kysely<Schema>): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await sql`create table if not exists migration (name text primary key)`.execute(transaction);
    const { rows } = await sql<{ name: string }>`select name from migration`.execute(transaction);
    const done = new Set(rows.map(({ name }) => name));
    const unknown = [...done].find((name) => !migrations.some((known) => known.name === name));
    if (unknown !== undefined) {
      throw new Error(`the database was made by a newer Latchkey (it has migration ${unknown})`);
    }
    for (const { name, statements } of migrations) {
      if (done.has(name)) continue;
      for (const statement of statements) await sql.raw(statement).execute(transaction);
      await sql`insert into migration (name) values (${name})`.execute(transaction);
    }
  });
}
