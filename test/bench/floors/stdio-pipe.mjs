/**
 * The floor of a stdio proxy: a line in is a POST, its answer is a line out. Nothing is checked,
 * remembered, signed in or cancelled. Plain JavaScript, since taking types away would be a third of its
 * cold start.
 *
 *     node stdio-pipe.mjs URL
 */
import { Agent, request } from 'node:http';

const url = new URL(process.argv[2] ?? '');
const agent = new Agent({ keepAlive: true });
const headers = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};

let rest = '';
// Bytes as they are: nobody here looks at a letter.
process.stdin.setEncoding('latin1').on('data', (text) => {
  const lines = text.split('\n');
  // Joined when the line is whole: it may be megabytes long.
  lines[0] = rest + lines[0];
  rest = lines.pop() ?? '';
  for (const line of lines) post(line);
});

function post(line) {
  const outgoing = request(url, { method: 'POST', agent, headers }, (response) => {
    let body = '';
    response.setEncoding('latin1').on('data', (part) => (body += part));
    response.on('end', () => {
      if (body === '') return;
      const stream = response.headers['content-type'] === 'text/event-stream';
      process.stdout.write(`${stream ? eventData(body) : body}\n`, 'latin1');
    });
  });
  outgoing.end(line, 'latin1');
}

function eventData(stream) {
  return /^data: (.*)$/m.exec(stream)?.[1] ?? '';
}
