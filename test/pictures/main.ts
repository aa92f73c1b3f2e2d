/**
 * `npm run pictures -- [scene]`: pictures of every page and state of the server in `test/out/pages`, for people to look at. Exits
 * with 1 if axe finds a fault, the Tab key does not reach something, or a page is wider than its window or a table than its box.
 * See README.md beside this file.
 */
import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { chromium } from '#support/chromium';
import { runProgram } from '#support/processes';
import { dashboardVisitor, email, signInAs } from '#support/dashboard-visitor';
import { accessScenes } from './access-scenes.ts';
import { activityScenes } from './activity-scenes.ts';
import { arrivalScenes } from './arrival-scenes.ts';
import { accountScenes } from './account-scenes.ts';
import { album as newAlbum, folder } from './album.ts';
import { collectionScenes } from './collection-scenes.ts';
import { consentScenes } from './consent-scenes.ts';
import { dashboardScenes } from './dashboard-scenes.ts';
import { deployScenes } from './deploy-scenes.ts';
import { errorScenes } from './error-scenes.ts';
import { furnishedServer } from './furnished-server.ts';
import { nodeScenes } from './node-scenes.ts';
import { peopleScenes } from './people-scenes.ts';
import { providerScenes } from './provider-scenes.ts';
import { provisioningScenes } from './provisioning-scenes.ts';
import { questionScenes } from './question-scenes.ts';
import { readmeScenes } from './readme-scenes.ts';
import { secretScenes } from './secret-scenes.ts';
import { settingsScenes } from './settings-scenes.ts';
import { tokenScenes } from './token-scenes.ts';
import { toolScenes } from './tool-scenes.ts';
import { tryScenes } from './try-scenes.ts';
import { upstreamScenes } from './upstream-scenes.ts';
import { webhookScenes } from './webhook-scenes.ts';

// The order matters: the others show and withdraw what the first scene allows.
const scenes = {
  consent: consentScenes,
  dashboard: dashboardScenes,
  activity: activityScenes,
  try: tryScenes,
  secrets: secretScenes,
  questions: questionScenes,
  settings: settingsScenes,
  deploy: deployScenes,
  tokens: tokenScenes,
  tools: toolScenes,
  webhooks: webhookScenes,
  upstream: upstreamScenes,
  collections: collectionScenes,
  errors: errorScenes,
  access: accessScenes,
  people: peopleScenes,
  provisioning: provisioningScenes,
  provider: providerScenes,
  account: accountScenes,
  arrival: arrivalScenes,
  nodes: nodeScenes,
};
/** Scenes that show what earlier scenes leave behind, with those earlier scenes, which are taken as well. */
const earlier: Partial<Record<string, readonly string[]>> = { questions: ['consent', 'secrets'] };
/** Where the test of the tray app's windows leaves its pictures. */
const windowsFolder = dirname(folder);
/** Taken only when named, because they overwrite the pictures of the documentation. */
const kept = { readme: readmeScenes };

// An exit handler kills every child, so this process must call `process.exit` itself: on a signal, and when its time is over.
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
setTimeout(() => {
  console.error('given up after an hour');
  process.exit(1);
}, 3_600_000).unref();

const wanted = process.argv.slice(2);
const known = [...Object.keys({ ...scenes, ...kept }), 'tray'];
const unknown = wanted.find((name) => !known.includes(name));
if (unknown !== undefined) {
  console.error(`no scene is called ${unknown}; there are: ${known.join(', ')}`);
  process.exit(2);
}
const needed = new Set(wanted.flatMap((name) => [name, ...(earlier[name] ?? [])]));
const chosen = Object.entries(wanted.length > 0 ? { ...scenes, ...kept } : scenes).filter(
  ([name]) => wanted.length === 0 || needed.has(name),
);
const album = newAlbum();
if (chosen.length > 0) await takeScenes();
const faults = [...album.faults];
const taken = chosen.length > 0 ? [`${album.taken()} pages and states in ${folder}`] : [];
if (wanted.length === 0 || wanted.includes('tray')) {
  taken.push(`${await takeWindows()} pictures of the tray app in ${windowsFolder}`);
}
for (const fault of faults) console.error(fault);
console.log(`${taken.join(', ')}, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;

async function takeScenes(): Promise<void> {
  const browser = await chromium();
  try {
    await using furnished = await furnishedServer();
    const dana = await dashboardVisitor(browser, furnished.server);
    await signInAs(dana, furnished.server, email);
    for (const [name, scene] of chosen) {
      console.error(name);
      await scene({ furnished, browser, dana, album });
    }
  } finally {
    await browser.close();
  }
}

/** Runs the test of the tray app's windows, which takes the pictures and finds the faults. Returns the number of pictures. */
async function takeWindows(): Promise<number> {
  const pictures = () => readdirSync(windowsFolder).filter((name) => /^tray-.*\.png$/.test(name));
  for (const old of pictures()) rmSync(join(windowsFolder, old));
  const { code, stdout } = await runProgram(process.execPath, {
    args: [
      'node_modules/vitest/vitest.mjs',
      'run',
      '--project=e2e',
      'test/e2e/tray/windows.test.ts',
    ],
    env: { TEST_PICTURES: '1' },
    timeoutMs: 300_000,
  });
  if (code !== 0) faults.push(`tray: ${stdout}`);
  return pictures().length;
}
