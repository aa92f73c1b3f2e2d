// An MCP server over stdio: node story-child.ts FILE. It writes down each message in FILE.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { reactionTo } from './outcomes.ts';

createInterface({ input: process.stdin }).on('line', (line) => {
  appendFileSync(process.argv[2] ?? '', `${line}\n`);
  const reaction = reactionTo(line);
  if (reaction === 'fails') process.exit(3);
  if (typeof reaction === 'object') process.stdout.write(`${reaction.json}\n`);
});
