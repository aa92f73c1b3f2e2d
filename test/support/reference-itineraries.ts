import { join } from 'node:path';

import type { Itinerary } from './server-survey.ts';

const data = 'data:text/plain;base64,aGVsbG8=';

/** All that the reference server `server-everything` offers. */
export const everything: Itinerary = {
  tools: [
    { name: 'echo', arguments: { message: 'hé 世界 \u2028' } },
    { name: 'echo', arguments: {} },
    { name: 'get-annotated-message', arguments: { messageType: 'error', includeImage: true } },
    { name: 'get-env' },
    { name: 'get-resource-links', arguments: { count: 10 } },
    { name: 'get-resource-reference', arguments: { resourceType: 'Blob', resourceId: 2 } },
    { name: 'get-structured-content', arguments: { location: 'Chicago' } },
    { name: 'get-sum', arguments: { a: 0.1, b: -2e21 } },
    { name: 'get-tiny-image' },
    { name: 'gzip-file-as-resource', arguments: { name: 'a.gz', data, outputType: 'resource' } },
    { name: 'toggle-simulated-logging' },
    { name: 'toggle-simulated-logging' },
    { name: 'toggle-subscriber-updates' },
    { name: 'toggle-subscriber-updates' },
    { name: 'trigger-long-running-operation', arguments: { duration: 0.3, steps: 3 } },
    { name: 'get-roots-list' },
    { name: 'trigger-elicitation-request' },
    { name: 'trigger-url-elicitation', arguments: { url: 'https://example.com/pay' } },
    {
      name: 'trigger-url-elicitation',
      arguments: { url: 'https://example.com/pay', elicitationId: 'e', errorPath: true },
    },
    { name: 'trigger-sampling-request', arguments: { prompt: 'why?' } },
    { name: 'no-such-tool' },
  ],
  resources: [
    'demo://resource/dynamic/text/1',
    'demo://resource/dynamic/blob/2',
    'demo://resource/nowhere',
  ],
  prompts: [
    { name: 'simple-prompt' },
    { name: 'args-prompt', arguments: { city: 'Łódź', state: 'x' } },
    { name: 'args-prompt' },
    { name: 'completable-prompt', arguments: { department: 'Sales', name: 'David' } },
    { name: 'resource-prompt', arguments: { resourceType: 'Text', resourceId: '3' } },
  ],
  completions: [
    { prompt: 'completable-prompt', argument: { name: 'department', value: 'S' } },
    {
      prompt: 'completable-prompt',
      argument: { name: 'name', value: 'E' },
      others: { department: 'Sales' },
    },
  ],
  logs: 'toggle-simulated-logging',
  task: { name: 'simulate-research-query', arguments: { topic: 'eras', ambiguous: true } },
  updates: { uri: 'demo://resource/dynamic/text/1', by: 'toggle-subscriber-updates' },
};

/** All that `server-filesystem` offers, in a folder where `dot.png` is. */
export const files = (path: string): Itinerary => {
  const [a, b, image] = ['a.txt', 'b.txt', 'dot.png'].map((name) => join(path, name));
  return {
    tools: [
      { name: 'write_file', arguments: { path: a, content: 'one\ntwo\nthree\n' } },
      { name: 'read_file', arguments: { path: a } },
      { name: 'read_text_file', arguments: { path: a, head: 2 } },
      { name: 'read_media_file', arguments: { path: image } },
      { name: 'read_multiple_files', arguments: { paths: [a, b] } },
      { name: 'edit_file', arguments: { path: a, edits: [{ oldText: 'two', newText: '2' }] } },
      { name: 'create_directory', arguments: { path: join(path, 'inner') } },
      { name: 'list_directory', arguments: { path } },
      { name: 'list_directory_with_sizes', arguments: { path } },
      { name: 'directory_tree', arguments: { path } },
      { name: 'move_file', arguments: { source: a, destination: b } },
      { name: 'move_file', arguments: { source: b, destination: a } },
      { name: 'search_files', arguments: { path, pattern: '**/*.txt' } },
      { name: 'get_file_info', arguments: { path: join(path, '..', 'elsewhere') } },
      { name: 'list_allowed_directories' },
    ],
  };
};

/** All that `server-memory` offers; its memory is empty again afterwards. */
export const memory: Itinerary = {
  tools: [
    {
      name: 'create_entities',
      arguments: { entities: [{ name: 'Ada', entityType: 'person', observations: ['counts'] }] },
    },
    {
      name: 'create_relations',
      arguments: { relations: [{ from: 'Ada', to: 'Ada', relationType: 'knows' }] },
    },
    {
      name: 'add_observations',
      arguments: { observations: [{ entityName: 'Ada', contents: ['writes'] }] },
    },
    { name: 'read_graph' },
    { name: 'search_nodes', arguments: { query: 'writes' } },
    { name: 'open_nodes', arguments: { names: ['Ada'] } },
    {
      name: 'delete_observations',
      arguments: { deletions: [{ entityName: 'Ada', observations: ['counts'] }] },
    },
    {
      name: 'delete_relations',
      arguments: { relations: [{ from: 'Ada', to: 'Ada', relationType: 'knows' }] },
    },
    { name: 'delete_entities', arguments: { entityNames: ['Ada'] } },
    { name: 'read_graph' },
  ],
};
