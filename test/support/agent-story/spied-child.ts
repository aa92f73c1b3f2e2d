// Another program with its stdin copied to a file: node spied-child.ts FILE PROGRAM WORD…
// Each line of the file is `milliseconds since 1970, a blank, what the program was sent`; the first says `started`.
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [file = '', command = '', ...words] = process.argv.slice(2);
const tell = (line: string) => appendFileSync(file, `${Date.now()} ${line}\n`);

const child = spawn(command, words, { stdio: ['pipe', 'inherit', 'inherit'] });
tell(`started ${child.pid}`);
child.on('exit', (code) => process.exit(code ?? 1));
child.stdin.on('error', () => undefined);
createInterface({ input: process.stdin })
  .on('line', (line) => {
    tell(line);
    child.stdin.write(`${line}\n`);
  })
  .on('close', () => child.stdin.end());
