/**
 * `npm run pictures -- [scene]`: every page and state of the server in `test/out/pages`, for people to look at; ends with 1
 * where axe finds something, the Tab key does not reach something, a page is wider than its window or a table than its box.
 * See README.md beside this file.
 */
import { chromium } from '#support/chromium';
import { runProgram } from '#support/processes';
import { dashboardVisitor, email, signInAs } from '#support/dashboard-visitor';
import { arrivalScenes } from './arrival-scenes.ts';
import { accountScenes } from './account-scenes.ts';
import { album as newAlbum, folder } from './album.ts';
import { consentScenes } from './consent-scenes.ts';
import { dashboardScenes } from './dashboard-scenes.ts';
import { errorScenes } from './error-scenes.ts';
import { furnishedServer } from './furnished-server.ts';
import { nodeScenes } from './node-scenes.ts';
import { questionScenes } from './question-scenes.ts';
import { readmeScenes } from './readme-scenes.ts';
import { secretScenes } from './secret-scenes.ts';
import { settingsScenes } from './settings-scenes.ts';
import { tokenScenes } from './token-scenes.ts';
import { tryScenes } from './try-scenes.ts';
import { upstreamScenes } from './upstream-scenes.ts';
import { webhookScenes } from './webhook-scenes.ts';

// In this order: what is allowed in the first is looked at and withdrawn in the others.
const scenes = {
  consent: consentScenes,
  dashboard: dashboardScenes,
  try: tryScenes,
  secrets: secretScenes,
  questions: questionScenes,
  settings: settingsScenes,
  tokens: tokenScenes,
  webhooks: webhookScenes,
  upstream: upstreamScenes,
  errors: errorScenes,
  account: accountScenes,
  arrival: arrivalScenes,
  nodes: nodeScenes,
};
/** Taken only when asked for, as they are kept. */
const kept = { readme: readmeScenes };

// Every child is killed as this process exits, so it must exit by itself, and in time.
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
setTimeout(() => {
  console.error('given up after ten minutes');
  process.exit(1);
}, 600_000).unref();

const wanted = process.argv.slice(2);
const album = newAlbum();
const browser = await chromium();
try {
  await using furnished = await furnishedServer();
  const dana = await dashboardVisitor(browser, furnished.server);
  await signInAs(dana, furnished.server, email);
  const stage = { furnished, browser, dana, album };
  const chosen =
    wanted.length > 0 ? Object.entries({ ...scenes, ...kept }) : Object.entries(scenes);
  for (const [name, scene] of chosen) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.error(name);
    await scene(stage);
  }
} finally {
  await browser.close();
}
const faults = [...album.faults];
if (wanted.length === 0 || wanted.includes('tray')) {
  // The windows of the tray app are looked at by their own test, which also finds what is wrong with them.
  const file = 'test/e2e/tray/windows.test.ts';
  const { code, stdout } = await runProgram(process.execPath, {
    args: ['node_modules/vitest/vitest.mjs', 'run', '--project=e2e', file],
    env: { TEST_PICTURES: '1' },
    timeoutMs: 300_000,
  });
  if (code !== 0) faults.push(`tray: ${stdout}`);
}
for (const fault of faults) console.error(fault);
console.log(`${album.taken()} pages and states in ${folder}, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
