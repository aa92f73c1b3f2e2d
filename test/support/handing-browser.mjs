#!/usr/bin/env node
// What a test names as BROWSER: hands the address over to the test's own browser.
await fetch(process.env['HAND_TO'] ?? '', { method: 'POST', body: process.argv[2] ?? '' });
