// Another program with its stdin copied to a file: node spied-child.ts FILE PROGRAM WORD…
// Each line of the file is `milliseconds since 1970, a blank, what the program was sent`; the first says `started`.
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';

const [file = '', command = '', ...words] = process.argv.slice(2);
const tell = (line: string) => appendFileSync(file, `${Date.now()} ${line}\n`);

const child = spawn(command, words, { stdio: ['pipe', 'inherit', 'inherit'] });
tell(`started ${child.pid}`);
child.on('exit', (code) => process.exit(code ?? 1));
child.stdin.on('error', () => undefined);
// Not `readline`, for which a line also ends at U+2028.
let rest = '';
process.stdin
  .setEncoding('utf8')
  .on('data', (text: string) => {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      tell(line);
      child.stdin.write(`${line}\n`);
    }
  })
  .on('end', () => child.stdin.end());
