import { expect, test } from 'vitest';
import { signInTool } from '#proxy/kept/sign-in-tool';
import { toldSubject } from '#proxy/kept/told-subject';

test('the tool that signs in tells the assistant where, without the key in the address', () => {
  const url = 'https://mcp.example.com/mcp?key=hunter22';
  const told = JSON.stringify([
    signInTool.described(toldSubject({ name: 'acme', url })),
    signInTool.described(toldSubject({ name: url, url })),
  ]);

  expect(told).toContain('https://mcp.example.com/mcp');
  expect(told).not.toContain('hunter22');
});
