// The suite's MCP server over standard input and output, in both eras.
import { serveStdio } from '@modelcontextprotocol/server/stdio';

import { suiteServer } from './suite-server.ts';

serveStdio(({ era }) => suiteServer(era));
