import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:net';
import { freePort } from './loopback.ts';
import { startProgram, type Program } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

export type FrontKind = 'nginx' | 'caddy';

/** A real reverse proxy in front of a server under test, as its operator would run one. */
export interface HttpFront extends AsyncDisposable {
  readonly kind: FrontKind;
  readonly port: number;
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** The log of the front, for a failing test. */
  readonly log: () => string;
}

/** Starts nginx or Caddy on a free loopback port; ready when it accepts connections. */
export async function httpFront(kind: FrontKind, upstreamPort: number): Promise<HttpFront> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder(kind));
  const port = await freePort();
  const program = stack.use(await starters[kind](folder, port, upstreamPort));
  await accepting(port, program);
  const started = stack.move();
  return {
    kind,
    port,
    origin: `http://127.0.0.1:${port}`,
    log: () => program.stderr,
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

const starters: Record<
  FrontKind,
  (folder: string, port: number, upstreamPort: number) => Promise<Program>
> = {
  async nginx(folder, port, upstreamPort) {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join(' ');
    const config = join(folder, 'nginx.conf');
    await writeFile(
      config,
      `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
events { worker_connections 256; }
http {
  access_log off; ${temporary}
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 16m;
    location / {
      proxy_pass http://127.0.0.1:${upstreamPort};
      proxy_http_version 1.1;
      proxy_buffering off;
      proxy_read_timeout 1h;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`,
    );
    return startProgram('nginx', { args: ['-p', folder, '-c', config, '-e', 'stderr'] });
  },

  async caddy(folder, port, upstreamPort) {
    const config = join(folder, 'Caddyfile');
    await writeFile(
      config,
      `{
	admin off
	auto_https off
}
http://:${port} {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:${upstreamPort} {
		flush_interval -1
	}
}
`,
    );
    return startProgram('caddy', {
      args: ['run', '--config', config, '--adapter', 'caddyfile'],
      env: { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
    });
  },
};

async function accepting(port: number, program: Program): Promise<void> {
  const exited = program.exited.then(() => 'exited' as const);
  for (let attempt = 0; attempt < 200; attempt++) {
    if (await connects(port)) return;
    const pause = new Promise<void>((resolve) => setTimeout(resolve, 25));
    if ((await Promise.race([pause, exited])) === 'exited') break;
  }
  throw new Error(`the front does not accept connections\n${program.stderr}`);
}

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
