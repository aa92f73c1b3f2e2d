import { wanted } from './strict-json.ts';
import type { Wanted } from './strict-json.ts';

/** A member of a message by the name the envelope has for it. */
export type Place = 'jsonrpc' | 'id' | 'method' | 'params' | 'result' | 'error' | ParamsPlace;

type ParamsPlace =
  | 'name'
  | 'uri'
  | 'requestId'
  | 'taskId'
  | 'requestState'
  | 'cursor'
  | 'initializeVersion'
  | 'meta'
  | 'relatedTask'
  | 'relatedTaskId'
  | 'progressToken'
  | 'protocolVersion';

const relatedTask = wanted<Place>({ taskId: { place: 'relatedTaskId' } });

const meta = wanted<Place>({
  progressToken: { place: 'progressToken' },
  'io.modelcontextprotocol/protocolVersion': { place: 'protocolVersion' },
  'io.modelcontextprotocol/related-task': { place: 'relatedTask', inside: relatedTask },
});

const params = wanted<Place>({
  name: { place: 'name' },
  uri: { place: 'uri' },
  requestId: { place: 'requestId' },
  taskId: { place: 'taskId' },
  requestState: { place: 'requestState' },
  cursor: { place: 'cursor' },
  protocolVersion: { place: 'initializeVersion' },
  _meta: { place: 'meta', inside: meta },
});

/** The members of a JSON-RPC message that scanning looks for. JSON-RPC 2.0 §4, §5 */
export const messageShape: Wanted<Place> = wanted<Place>(
  {
    jsonrpc: { place: 'jsonrpc' },
    id: { place: 'id' },
    method: { place: 'method' },
    params: { place: 'params', inside: params },
    result: { place: 'result' },
    error: { place: 'error' },
  },
  { closed: true },
);
