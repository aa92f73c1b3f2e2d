import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { helperEnvironment } from '#config/helper-environment';

const limits = { timeout: 3_000, maxBuffer: 16 * 1024, windowsHide: true };

/** What the system calls a process, without its arguments; `undefined` when it is gone. */
export async function processName(
  pid: number,
  platform: NodeJS.Platform,
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  if (platform === 'linux') {
    const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    return name.trim() || undefined;
  }
  if (platform === 'win32') {
    const line = await output('tasklist', ['/fi', `PID eq ${pid}`, '/fo', 'csv', '/nh'], env);
    return /^"([^"]+?)(?:\.exe)?"/i.exec(line)?.[1];
  }
  const path = await output('/bin/ps', ['-o', 'comm=', '-p', String(pid)], env);
  return basename(path.trim()) || undefined;
}

async function output(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<string> {
  const options = { ...limits, env: helperEnvironment(env) };
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout) => resolve(error ? '' : stdout)).unref();
  });
}
