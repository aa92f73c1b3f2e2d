import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { startProgram, type Program } from './processes.ts';
import { launcher } from './proxy-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A `latchkey agent` process that serves the servers of a test. */
export interface RunningAgent extends AsyncDisposable {
  readonly program: Program;
}

/** Starts an agent and waits until it serves each of `servers`: their names, and how the agent reaches each. */
export async function runningAgent(
  base: string,
  agentKey: string,
  servers: Readonly<Record<string, object>>,
  env: Readonly<Record<string, string>> = {},
): Promise<RunningAgent> {
  const folder = await temporaryFolder('agent');
  const file = join(folder.path, 'agent.json');
  await writeFile(file, JSON.stringify({ servers }));
  const program = startProgram(process.execPath, {
    args: [launcher, 'agent', '--server-url', base, '--config', file],
    env: { ...env, LATCHKEY_AGENT_KEY: agentKey, HOME: folder.path },
    endLimitMs: 20_000,
  });
  const stop = async () => {
    await program.end();
    await folder[Symbol.asyncDispose]();
  };
  const served = new RegExp(`serving ${Object.keys(servers).join(', ')}`);
  try {
    await program.line(served, { timeoutMs: 60_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { program, [Symbol.asyncDispose]: stop };
}
