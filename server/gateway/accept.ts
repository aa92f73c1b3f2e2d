/** The two forms in which a message may be answered. */
export interface Accepts {
  readonly json: boolean;
  readonly events: boolean;
}

/**
 * What an `Accept` header allows. None, or a wildcard, means JSON: events only go to who asks for them.
 * RFC 9110 §12.5.1
 */
export function parseAccept(header: string | undefined): Accepts {
  if (header === undefined || header.trim() === '') return { json: true, events: false };
  let json = false;
  let events = false;
  for (const range of header.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    if (parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))) continue;
    if (type === '*/*' || type === 'application/*' || type === 'application/json') json = true;
    if (type === 'text/event-stream' || type === 'text/*') events = true;
  }
  return { json, events };
}
