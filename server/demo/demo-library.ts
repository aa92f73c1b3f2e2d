import { createMcpHandler } from '@modelcontextprotocol/server';
import { SkillsExtension, memorySkillFiles } from '@modelcontextprotocol/server/ext/skills';
import { LibraryCatalogue } from './library-catalogue.ts';
import { libraryFile } from './library-file.ts';
import { libraryServer } from './library-server.ts';
import type { LibraryServerPorts } from './library-server.ts';
import { QueryPool } from './query-pool.ts';
import { readingTheLibrary } from './reading-the-library.ts';

/** As `query`'s description and the skill say. */
const timeoutMs = 5000;

/** The demo MCP server, both protocol eras, without sessions. */
export interface DemoLibrary {
  fetch(request: Request): Promise<Response>;
  close(): Promise<void>;
}

/**
 * The sample lending library of `latchkey-server start --demo`. Its database is made in `dataDir` at
 * the first request; `nodePath` is the Node that runs the queries of others.
 */
export function openDemoLibrary({
  dataDir,
  nodePath,
}: {
  dataDir: string;
  nodePath: string;
}): DemoLibrary {
  let opened: Promise<LibraryServerPorts> | undefined;
  const open = async (): Promise<LibraryServerPorts> => {
    const skills = await SkillsExtension.load(
      memorySkillFiles({ 'reading-the-library/SKILL.md': readingTheLibrary }),
      { strict: true },
    );
    const file = libraryFile(dataDir);
    const pool = new QueryPool({ nodePath, file, timeoutMs });
    return { skills, catalogue: new LibraryCatalogue(file), pool };
  };
  const ports = () =>
    (opened ??= open().catch((error: unknown) => {
      // The next request tries again: a full disk or a missing folder can be put right.
      opened = undefined;
      throw error;
    }));
  const handler = createMcpHandler(async () => libraryServer(await ports()));

  return {
    fetch: (request) => handler.fetch(request),
    async close() {
      await handler.close();
      const library = await opened;
      library?.pool.close();
      library?.catalogue.close();
    },
  };
}
