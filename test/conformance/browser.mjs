#!/usr/bin/env node
// Stands in for a person with a browser: follows the redirects of the page it is given.
import { cookieBrowser } from '../support/cookie-browser.ts';

const response = await cookieBrowser().open(process.argv[2] ?? '');
process.exitCode = response.ok ? 0 : 1;
