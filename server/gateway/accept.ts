/** The two forms in which a message may be answered. */
export interface Accepts {
  readonly json: boolean;
  readonly events: boolean;
}

const jsonAlone: Accepts = { json: true, events: false };
const either: Accepts = { json: true, events: true };

/**
 * What an `Accept` header allows. None, or a wildcard, means JSON: events only go to who asks for them.
 * RFC 9110 §12.5.1
 */
export function parseAccept(header: string | undefined): Accepts {
  if (header === undefined || header.trim() === '') return jsonAlone;
  // As every client of the protocol writes it.
  if (header === 'application/json, text/event-stream') return either;
  const ranges = new Map<string, boolean>();
  for (const range of header.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    ranges.set(type, !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter)));
  }
  // The most specific range decides, so that `application/json;q=0, */*` means no JSON.
  const allows = (...types: string[]) =>
    ranges.get(types.find((type) => ranges.has(type)) ?? '') ?? false;
  return {
    json: allows('application/json', 'application/*', '*/*'),
    events: allows('text/event-stream', 'text/*'),
  };
}
