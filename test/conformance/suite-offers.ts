import { completable, ResourceTemplate, type McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

import { png } from './suite-tools.ts';

const text = (value: string) => ({ type: 'text' as const, text: value });

/** The resources, prompts and completions that the suite asks for. */
export function suiteOffers(server: McpServer): void {
  const plain = { mimeType: 'text/plain', description: 'a text' };
  server.registerResource('static-text', 'test://static-text', plain, ({ href: uri }) => ({
    contents: [
      { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    ],
  }));
  server.registerResource('watched', 'test://watched-resource', plain, ({ href: uri }) => ({
    contents: [{ uri, mimeType: 'text/plain', text: 'watched' }],
  }));
  const picture = { mimeType: 'image/png', description: 'a pixel' };
  server.registerResource('static-binary', 'test://static-binary', picture, ({ href: uri }) => ({
    contents: [{ uri, mimeType: 'image/png', blob: png }],
  }));
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  server.registerResource('template', template, {}, ({ href: uri }, { id }) => ({
    contents: [
      {
        uri,
        mimeType: 'application/json',
        text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
      },
    ],
  }));
  const prompt = { description: 'a prompt' };
  server.registerPrompt('test_simple_prompt', prompt, () => ({
    messages: [{ role: 'user', content: text('This is a simple prompt for testing.') }],
  }));
  const args = z.object({
    arg1: completable(z.string(), (value) =>
      ['paris', 'park', 'party'].filter((word) => word.startsWith(value)),
    ),
    arg2: z.string(),
  });
  server.registerPrompt('test_prompt_with_arguments', { ...prompt, argsSchema: args }, (given) => ({
    messages: [
      {
        role: 'user',
        content: text(`Prompt with arguments: arg1='${given.arg1}', arg2='${given.arg2}'`),
      },
    ],
  }));
  const uriSchema = z.object({ resourceUri: z.string() });
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { ...prompt, argsSchema: uriSchema },
    (given) => {
      const resource = {
        uri: given.resourceUri,
        mimeType: 'text/plain',
        text: 'Embedded resource content for testing.',
      };
      return {
        messages: [
          { role: 'user', content: { type: 'resource', resource } },
          { role: 'user', content: text('Please process the embedded resource above.') },
        ],
      };
    },
  );
  server.registerPrompt('test_prompt_with_image', prompt, () => ({
    messages: [
      { role: 'user', content: { type: 'image', data: png, mimeType: 'image/png' } },
      { role: 'user', content: text('Please analyze the image above.') },
    ],
  }));
}
