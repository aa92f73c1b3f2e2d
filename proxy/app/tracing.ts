import type { Tracing } from 'latchkey-mcp/tracing';
import { readTraceOptions } from 'latchkey-mcp/trace-options';
import type { Log } from '#log/log';
import { programVersion } from '#version';

/**
 * Starts tracing if the environment names a collector, and loads the code for it only then. An assistant's environment is often
 * meant for other programs as well, so invalid settings cause a warning rather than an error.
 */
export async function openTracing(
  env: Readonly<Record<string, string | undefined>>,
  program: 'latchkey' | 'latchkey-agent',
  log: Log,
): Promise<Tracing | undefined> {
  const choice = readTraceOptions(env);
  if (choice.outcome === 'unusable') {
    log.warn('no traces are sent', { reason: choice.message, hint: choice.hint });
  }
  if (choice.outcome !== 'on') return undefined;
  const [{ Tracing }, version] = await Promise.all([
    import('latchkey-mcp/tracing'),
    programVersion(),
  ]);
  const failed = (reason: string) => log.warn('traces were not delivered', { reason });
  return new Tracing({ ...choice.options, program, version, failed });
}
