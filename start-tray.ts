/** `npm run tray`: builds the tray app and starts it from the sources, as far as Electron's program can be had. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildApp } from './build-app.ts';
import { electronBinary } from './electron-binary.ts';

const found = electronBinary(process.env);
if ('missing' in found) {
  process.stderr.write(`latchkey: ${found.missing}\n`);
  process.exitCode = 1;
} else {
  const folder = join(import.meta.dirname, 'tray-app/dist/app');
  await buildApp(folder);
  const app = spawn(found.path, [folder, ...process.argv.slice(2)], { stdio: 'inherit' });
  // Ctrl-C reaches it too; waiting for it leaves nothing behind.
  process.on('SIGINT', () => {}).on('SIGTERM', () => app.kill('SIGTERM'));
  process.exitCode = await new Promise((resolve) => {
    app.on('exit', (code) => resolve(code ?? 1)).on('error', () => resolve(1));
  });
}
