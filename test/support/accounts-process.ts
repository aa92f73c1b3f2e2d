import { createInterface } from 'node:readline';
import { homedir } from 'node:os';
import { AccountsError, openAccounts } from '#proxy/app-accounts';
import { callDoor } from './call-door.ts';
import { launcher } from './proxy-process.ts';

/**
 * A process that does with the door what its standard input says, a JSON array a line:
 * `["rotateKey","work","mcp_…"]`. It answers each with a line, `{"value":…}` or `{"error":…}`.
 */
const door = openAccounts({
  platform: process.platform,
  home: homedir(),
  env: process.env,
  pid: process.pid,
  parentPid: process.ppid,
  nodeVersion: process.versions.node,
  launcher: { node: process.execPath, script: launcher },
});

const say = (answer: unknown) => process.stdout.write(`${JSON.stringify(answer)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  try {
    say({ value: (await callDoor(door, line)) ?? null });
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    const { code, message, hint } = error;
    say({ error: { code, message, hint } });
  }
}
