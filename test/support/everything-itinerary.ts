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
