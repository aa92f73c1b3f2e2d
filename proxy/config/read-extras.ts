import type { Problem } from './configuration-error.ts';
import { transports, type Connection } from './connection.ts';
import type { Entry } from './read-entry.ts';

type Extras = Pick<Connection, 'headers' | 'transport'>;

/** RFC 9110 §5.1, §5.5, of the latter only what every server takes. */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** What the transport itself says, and says right: in a configuration they are passed over. */
const ownHeaders =
  /^(host|content-length|content-type|transfer-encoding|connection|accept|mcp-session-id|mcp-protocol-version)$/;

/**
 * What an entry says besides URL and credential. `${NAME}` in a header's value stands for a variable of
 * the environment, and stays as it is where there is none. Everything wrong goes into `problems`, never
 * with the value itself.
 */
export function readExtras(
  { source, key, headers, transport }: Entry,
  setting: (name: string) => string | undefined,
  problems: Problem[],
): Extras {
  const complain = (name: string, problem: string) =>
    problems.push({ source, key: `${key}.${name}`, problem });
  const read: Record<string, string> = {};
  if (headers !== undefined && !isObject(headers)) complain('headers', 'is not an object');
  for (const [name, value] of Object.entries(isObject(headers) ? headers : {})) {
    const filled = typeof value === 'string' ? expanded(value, setting) : '';
    const fine = typeof value === 'string' && headerName.test(name) && headerValue.test(filled);
    if (!fine) complain(`headers.${name}`, 'is not a header that HTTP allows');
    else if (!ownHeaders.test(name.toLowerCase())) read[name.toLowerCase()] = filled;
  }
  const chosen = transports.find((one) => one === transport);
  if (transport !== undefined && chosen === undefined)
    complain('transport', `is none of ${transports.join(', ')}`);
  return {
    ...(Object.keys(read).length > 0 && { headers: read }),
    ...(chosen !== undefined && { transport: chosen }),
  };
}

/** `${NAME}` replaced by the variable of that name, as mcp-remote does. */
export function expanded(text: string, setting: (name: string) => string | undefined): string {
  return text.replaceAll(/\$\{([^}]+)\}/g, (whole, name: string) => setting(name) ?? whole);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
