import { createInterface } from 'node:readline';
import { homedir } from 'node:os';
import { AccountsError, openAccounts } from '#proxy/app/accounts';
import { callAccounts } from './call-accounts.ts';
import { launcher } from './proxy-process.ts';

/**
 * A process that calls the accounts service as its standard input says, a JSON array a line:
 * `["rotateKey","work","mcp_…"]`. It answers each with a line, `{"value":…}` or `{"error":…}`.
 */
const service = openAccounts({
  platform: process.platform,
  home: homedir(),
  env: process.env,
  pid: process.pid,
  parentPid: process.ppid,
  nodeVersion: process.versions.node,
  launcher: { node: process.execPath, script: launcher },
});

const print = (answer: unknown) => process.stdout.write(`${JSON.stringify(answer)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  try {
    print({ value: (await callAccounts(service, line)) ?? null });
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    const { code, message, hint } = error;
    print({ error: { code, message, hint } });
  }
}
