import type { ShownServer } from '#administration/shown-server';
import type { Form } from '#oauth/form';
import { limitNames } from '#organizations/server-limits';
import type { FieldError } from '#pages/page';
import { refusedForm } from './refused-form.ts';
import type { TypedServer } from './server-form-page.ts';

/** What each field of the form is called where it is refused. */
const serverLabels = {
  name: { field: 'name', label: 'The name' },
  title: { field: 'title', label: 'The title' },
  description: { field: 'description', label: 'The description' },
  instructions: { field: 'instructions', label: 'The instructions' },
  hiddenTools: { field: 'hiddenTools', label: 'A name of a hidden tool' },
  'limits.callsPerMinute': { field: 'callsPerMinute', label: 'Calls a minute' },
  'limits.concurrentCalls': { field: 'concurrentCalls', label: 'Calls at once' },
  'limits.requestBytes': { field: 'requestBytes', label: 'Bytes of a request' },
  'limits.answerBytes': { field: 'answerBytes', label: 'Bytes of an answer' },
  'limits.callSeconds': { field: 'callSeconds', label: 'Seconds a call' },
  'upstream.url': { field: 'url', label: 'The URL' },
  'upstream.agent': { field: 'agent', label: 'The agent' },
  upstream: { field: 'kind', label: 'Where calls go' },
} as const;

/**
 * What is wrong in the form of a server; what was not chosen or typed is said as that. `conflict` is as `refusedForm`
 * has it.
 *
 * @throws whatever `refusal` is, when no field can say it
 */
export function serverErrors(refusal: unknown, typed: TypedServer, conflict: string): FieldError[] {
  const { kind, url, agent } = typed;
  const missing: Readonly<Record<string, string>> = {
    ...(kind === 'agent' && agent === '' && { agent: 'Choose the agent.' }),
    ...(kind === 'http' && url === '' && { url: 'Type the URL of the HTTP server.' }),
  };
  return refusedForm(refusal, serverLabels, conflict).map(({ field, message }) => ({
    field,
    message: missing[field] ?? message,
  }));
}

/** The form of a server that is yet to be made. */
export function emptyServer(): TypedServer {
  const none = { name: '', title: '', description: '', instructions: '', hiddenTools: '' };
  return { ...none, kind: 'http', url: '', agent: '', limits: {}, revision: '' };
}

/** A server as its form shows it. */
export function serverAsTyped(server: ShownServer): TypedServer {
  const { name, title, description, instructions, hiddenTools, limits, upstream } = server;
  return {
    name,
    title,
    description,
    instructions,
    hiddenTools: hiddenTools.join('\n'),
    limits: Object.fromEntries(limitNames.map((limit) => [limit, String(limits[limit] ?? '')])),
    revision: String(server.revision),
    kind: upstream.kind,
    url: upstream.kind === 'http' ? upstream.url : '',
    agent: upstream.kind === 'agent' ? upstream.agent : '',
  };
}

/** What was typed in the form of a server, empty where nothing was. */
export function typedServer(form: Form): TypedServer {
  const text = (name: string) => form.get(name) ?? '';
  return {
    name: text('name').trim(),
    title: text('title'),
    description: text('description'),
    instructions: text('instructions'),
    hiddenTools: text('hiddenTools'),
    limits: Object.fromEntries(limitNames.map((limit) => [limit, text(limit).trim()])),
    revision: text('revision'),
    kind: text('kind'),
    url: text('url').trim(),
    agent: text('agent'),
  };
}

/** What was typed, as the operations take it. */
export function serverInput({ name, kind, url, agent, ...typed }: TypedServer) {
  const upstream = kind === 'http' ? { kind, url } : kind === 'agent' ? { kind, agent } : { kind };
  const { title, description, instructions } = typed;
  return {
    made: { name, upstream, title },
    changed: {
      // A command is the operator's: it stays, or something else takes its place.
      ...(kind !== 'stdio' && { upstream }),
      title,
      description,
      instructions,
      hiddenTools: lines(typed.hiddenTools),
      limits: Object.fromEntries(
        limitNames.map((limit) => [limit, numberOrNone(typed.limits[limit])]),
      ),
      // A form that was shown by an older version has none.
      ...(typed.revision !== '' && { revision: Number(typed.revision) }),
    },
  };
}

/** `null` where nothing was typed; what is no number is the operation's to refuse. */
function numberOrNone(typed: string | undefined): number | null {
  return typed === undefined || typed === '' ? null : Number(typed);
}

/** The lines of a text that are not empty. */
export function lines(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
