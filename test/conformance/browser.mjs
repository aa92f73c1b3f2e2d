#!/usr/bin/env node
// Stands in for a person with a browser: follows the redirects of the page it is given.
const response = await fetch(process.argv[2] ?? '');
process.exitCode = response.ok ? 0 : 1;
