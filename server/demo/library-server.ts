import { McpServer } from '@modelcontextprotocol/server';
import type { SkillsExtension } from '@modelcontextprotocol/server/ext/skills';
import { z } from 'zod';
import type { LibraryCatalogue } from './library-catalogue.ts';
import type { QueryPool } from './query-pool.ts';
import { queryResult, queryTool } from './query-tool.ts';
import { answer, failure, readOnly } from './tool-result.ts';
import { textTable } from './text-table.ts';

const cell = z.union([z.string(), z.number(), z.null()]);
const summary = { name: z.string(), about: z.string(), rowCount: z.number().int() };

const listTables = {
  title: 'List tables',
  description: 'The tables of the sample library with what they hold and how many rows.',
  inputSchema: z.object({}),
  outputSchema: z.object({ tables: z.array(z.object(summary)) }),
  annotations: readOnly,
};

const describeTable = {
  title: 'Describe a table',
  description: 'One table: its columns, keys, row count and a few rows.',
  inputSchema: z.object({ table: z.string().describe('A name from list_tables') }),
  outputSchema: z.object({
    ...summary,
    columns: z.array(
      z.object({
        name: z.string(),
        type: z.string(),
        nullable: z.boolean(),
        primaryKey: z.boolean(),
      }),
    ),
    foreignKeys: z.array(z.object({ column: z.string(), references: z.string() })),
    sample: z.array(z.record(z.string(), cell)),
  }),
  annotations: readOnly,
};

export interface LibraryServerPorts {
  catalogue: LibraryCatalogue;
  pool: QueryPool;
  skills: SkillsExtension;
}

/** The sample library as an MCP server, for one request or one connection of either era. */
export function libraryServer({ catalogue, pool, skills }: LibraryServerPorts): McpServer {
  const server = new McpServer(
    { name: 'library', title: 'Library (demo)', version: '1.0.0' },
    {
      instructions:
        'A sample lending library. Use list_tables and describe_table, then query with one SELECT. The skill reading-the-library says how the tables hang together.',
    },
  );
  skills.attach(server);

  server.registerTool('list_tables', listTables, () => {
    const tables = catalogue.tables();
    const rows = tables.map(({ name, about, rowCount }) => [name, about, rowCount]);
    return answer(textTable(['table', 'about', 'rows'], rows), { tables });
  });

  server.registerTool('describe_table', describeTable, ({ table }) => {
    const found = catalogue.table(table);
    if (found) return answer(describe(found), { ...found });
    const names = catalogue.tables().map(({ name }) => name);
    return failure(`There is no table "${table.slice(0, 80)}". There are: ${names.join(', ')}.`);
  });

  server.registerTool('query', queryTool, async ({ sql, limit }, { mcpReq }) =>
    queryResult(await pool.run({ sql, maxRows: limit }, mcpReq.signal)),
  );

  return server;
}

function describe(table: NonNullable<ReturnType<LibraryCatalogue['table']>>): string {
  const references = new Map(table.foreignKeys.map((key) => [key.column, key.references]));
  const columns = table.columns.map(({ name, type, nullable, primaryKey }) => [
    name,
    type,
    primaryKey ? 'primary key' : (references.get(name) ?? ''),
    nullable ? 'may be null' : '',
  ]);
  const names = table.columns.map(({ name }) => name);
  const rows = table.sample.map((row) => names.map((name) => row[name] ?? null));
  return [
    `${table.name}: ${table.about}. ${table.rowCount} rows.`,
    textTable(['column', 'type', 'key', ''], columns),
    `The first ${rows.length} rows:`,
    textTable(names, rows),
  ].join('\n\n');
}
