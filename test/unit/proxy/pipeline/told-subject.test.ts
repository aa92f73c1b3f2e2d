import { expect, test } from 'vitest';
import { signInTool } from '#proxy/pipeline/sign-in-tool';
import { toldSubject } from '#proxy/pipeline/told-subject';

test('sign-in tool: it names the server to the assistant without the key in its URL', () => {
  const url = 'https://mcp.example.com/mcp?key=hunter22';
  const told = JSON.stringify([
    signInTool.described(toldSubject({ name: 'acme', url })),
    signInTool.described(toldSubject({ name: url, url })),
  ]);

  expect(told).toContain('https://mcp.example.com/mcp');
  expect(told).not.toContain('hunter22');
});
