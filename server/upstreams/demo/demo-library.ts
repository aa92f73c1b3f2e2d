import {
  createMcpHandler,
  McpServer,
  type CallToolResult,
  type ToolAnnotations,
} from '@modelcontextprotocol/server';
import { SkillsExtension, memorySkillFiles } from '@modelcontextprotocol/server/ext/skills';
import { z } from 'zod';

import type { Upstream } from '#gateway/upstream';
import { inProcessRequest } from '#gateway/in-process-request';
import {
  LibraryCatalogue,
  tableDescription,
  tableSummary,
  type TableDescription,
} from './catalogue.ts';
import { libraryFile } from './library-file.ts';
import { queryValue } from './query-child.ts';
import { QueryProcess, type QueryOutcome } from './query-process.ts';
import { readingTheLibrary } from './skill.ts';

/** The description of `query` and the skill both state this limit. */
const timeoutMs = 5000;

const readOnly: ToolAnnotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};

const listTables = {
  title: 'List tables',
  description:
    'Lists the tables of the sample library with a description and the number of rows of each.',
  inputSchema: z.object({}),
  outputSchema: z.object({ tables: z.array(tableSummary) }),
  annotations: readOnly,
};

const describeTable = {
  title: 'Describe a table',
  description: 'One table: its columns, keys, row count and a few rows.',
  inputSchema: z.object({ table: z.string().describe('A name from list_tables') }),
  outputSchema: tableDescription,
  annotations: readOnly,
};

const queryTool = {
  title: 'Query the library',
  description:
    'Runs one SQLite SELECT (or WITH … SELECT, VALUES) on the sample library, read-only, for 5 seconds at most. Call describe_table first for the names of columns.',
  inputSchema: z.object({
    sql: z.string().min(1).max(100_000).describe('One SELECT statement in SQLite’s SQL'),
    limit: z.int().min(1).max(1000).default(200).describe('The maximum number of rows to return'),
  }),
  outputSchema: z.object({
    columns: z.array(z.string()),
    rows: z.array(z.array(queryValue)),
    rowCount: z.number().int(),
    truncated: z.boolean().describe('Whether there were more rows'),
  }),
  annotations: readOnly,
};

interface Library {
  catalogue: LibraryCatalogue;
  queries: QueryProcess;
  skills: SkillsExtension;
}

/**
 * Opens the sample lending library of `latchkey-server start --demo`. Its database is created in
 * `dataDir` at the first request; `nodePath` is the Node executable that runs callers' queries.
 */
export function openDemoLibrary({ dataDir, nodePath }: { dataDir: string; nodePath: string }) {
  let opened: Promise<Library> | undefined;
  const open = async (): Promise<Library> => {
    const skills = await SkillsExtension.load(
      memorySkillFiles({ 'reading-the-library/SKILL.md': readingTheLibrary }),
      { strict: true },
    );
    const file = libraryFile(dataDir);
    const queries = new QueryProcess({ nodePath, file, timeoutMs });
    return { skills, catalogue: new LibraryCatalogue(file), queries };
  };
  const library = () =>
    (opened ??= open().catch((error: unknown) => {
      // The next request tries again: by then the disk may have space again, or the folder may exist.
      opened = undefined;
      throw error;
    }));
  const handler = createMcpHandler(async () => libraryServer(await library()));

  const fetch = (request: Request) => handler.fetch(request);
  return {
    upstream: inProcessUpstream(fetch),
    fetch,
    async close(): Promise<void> {
      await handler.close();
      const openedLibrary = await opened;
      openedLibrary?.queries.close();
      openedLibrary?.catalogue.close();
    },
  };
}

/** The demo MCP server: speaks both protocol eras, has no sessions. */
export type DemoLibrary = ReturnType<typeof openDemoLibrary>;

/** Returns an MCP server in this process as an upstream, which is called without a socket. */
function inProcessUpstream(fetch: (request: Request) => Promise<Response>): Upstream {
  return {
    async send(request) {
      const response = await fetch(inProcessRequest(request));
      return {
        status: response.status,
        mediaType: response.headers.get('content-type')?.split(';')[0]?.toLowerCase() ?? '',
        sessionId: response.headers.get('mcp-session-id') ?? undefined,
        retryAfterSeconds: undefined,
        body: response.body ?? new Uint8Array(),
      };
    },
  };
}

/** Returns the sample library as an MCP server for one request, or for one connection, of either era. */
function libraryServer({ catalogue, queries, skills }: Library): McpServer {
  const server = new McpServer(
    { name: 'library', title: 'Library (demo)', version: '1.0.0' },
    {
      instructions:
        'A sample lending library. Use list_tables and describe_table, then query with one SELECT. The skill reading-the-library says how the tables are related.',
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
    queryResult(await queries.run({ sql, maxRows: limit }, mcpReq.signal)),
  );

  return server;
}

function describe(table: TableDescription): string {
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

const unanswered: Record<'too slow' | 'ended' | 'busy' | 'cancelled', string> = {
  'too slow':
    'The query was stopped after 5 seconds: join on id columns, filter earlier, and end every recursion.',
  ended:
    'The process that runs queries ended, most likely as the query took too much memory: sort or group fewer rows.',
  busy: 'Too many queries are waiting: try again in a few seconds.',
  cancelled: 'The query was cancelled.',
};

/** Describes an outcome to a model, with advice on what to do differently. */
function queryResult(outcome: QueryOutcome): CallToolResult {
  if (outcome.outcome === 'refused')
    return failure(`The query was not answered: ${outcome.reason}.`);
  if (outcome.outcome !== 'rows') return failure(unanswered[outcome.outcome]);
  const { columns, rows, truncated } = outcome;
  const summaryLine = truncated
    ? `The first ${rows.length} rows; there are more. Raise limit (1,000 at most), or narrow or group the query.`
    : `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}.`;
  const structured = { columns, rows, rowCount: rows.length, truncated };
  return answer(`${textTable(columns, rows)}\n\n${summaryLine}`, structured);
}

function answer(text: string, structuredContent: Record<string, unknown>): CallToolResult {
  return { content: [{ type: 'text', text }], structuredContent };
}

/** `text` says what failed and what to do next. */
function failure(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** Formats rows as a Markdown table, for people and models. */
function textTable(
  columns: readonly string[],
  rows: readonly (readonly (string | number | boolean | null)[])[],
): string {
  const line = (cells: readonly (string | number | boolean | null)[]) =>
    `| ${cells.map((cell) => cellText(cell)).join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)].join('\n');
}

function cellText(cell: string | number | boolean | null): string {
  return String(cell ?? 'null')
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|')
    .replaceAll(/\r?\n/g, '\\n');
}
