import { registerHooks } from 'node:module';

/*
 * Loaded before the app: `electron` is the stand-in, and where the test says so, the accounts service is
 * a scripted one.
 */
const standIns: Record<string, string> = {
  electron: new URL('electron-stand-in.ts', import.meta.url).href,
  ...(process.env['SCRIPTED_ACCOUNTS'] && {
    'latchkey/accounts': new URL('scripted-accounts.ts', import.meta.url).href,
  }),
};

registerHooks({
  resolve(specifier, context, next) {
    const url = standIns[specifier];
    return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
  },
});
