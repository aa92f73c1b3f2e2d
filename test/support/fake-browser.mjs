#!/usr/bin/env node
// Stands in for a person with a browser: follows the redirects and keeps the page it ends at.
import { appendFileSync } from 'node:fs';
import { cookieBrowser } from './cookie-browser.ts';

const response = await cookieBrowser().open(process.argv[2] ?? '');
const page = await response.text();
const pages = process.env['FAKE_BROWSER_PAGES'];
if (pages) appendFileSync(pages, `${response.status} ${page.replaceAll('\n', ' ')}\n`);
