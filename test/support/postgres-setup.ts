import { randomBytes } from 'node:crypto';

import { Pool } from 'pg';
import type { TestProject } from 'vitest/node';

import { postgresUrl, lack, requirements } from './requirements.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL database of this run; empty where there is no PostgreSQL. */
    postgresUrl: string;
  }
}

/**
 * Creates a database for this run where PostgreSQL can be reached, and drops it at the end. The database sorts text
 * as English does, on which no query may depend.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if ((await lack(requirements.postgres)) !== undefined) {
    project.provide('postgresUrl', '');
    return () => Promise.resolve();
  }
  const pool = new Pool({ connectionString: postgresUrl() });
  const name = `latchkey_test_${randomBytes(6).toString('hex')}`;
  await pool.query(
    `create database ${name} template template0 encoding 'UTF8' locale 'C.UTF-8' locale_provider icu icu_locale 'en-US'`,
  );
  const url = new URL(postgresUrl());
  url.pathname = name;
  project.provide('postgresUrl', url.href);
  return async () => {
    await pool.query(`drop database ${name} with (force)`);
    await pool.end();
  };
}
