import { Validator } from '@seriousme/openapi-schema-validator';
import { expect, test } from 'vitest';
import { operations } from '#server/admin/operations';
import { openApiDocument } from '#server/admin/openapi';

const document = openApiDocument('https://latchkey.example.com', operations);

test('the document is OpenAPI 3.1', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(structuredClone(document));

  expect(errors ?? []).toEqual([]);
  expect(valid).toBe(true);
  expect(validator.version).toBe('3.1');
});

test('every operation with a route is in it once, under its own name', () => {
  const ids = JSON.stringify(document).match(/(?<="operationId":")[^"]+/g);
  const routed = operations.filter(({ route }) => route !== undefined).map(({ name }) => name);

  expect(ids).toHaveLength(routed.length);
  expect(new Set(ids)).toEqual(new Set(routed));
});

test('names are those of the wire, and every referenced schema exists', () => {
  const text = JSON.stringify(document);
  const referred = [...text.matchAll(/#\/components\/schemas\/(\w+)/g)].map(([, name]) => name);

  expect(document).toMatchObject({
    paths: {
      '/api/admin/organizations/{organization}/servers/{server}/clients': {
        post: {
          requestBody: {
            content: {
              'application/json': {
                schema: {
                  required: ['name', 'scopes'],
                  properties: { redirect_uris: { type: 'array' }, jwks: expect.anything() },
                },
              },
            },
          },
        },
      },
      '/api/admin/organizations/{organization}/clients/{client_id}': { get: expect.anything() },
    },
    components: {
      schemas: {
        CreatedClient: { required: expect.arrayContaining(['client_id', 'client_secret']) },
        ...Object.fromEntries(referred.map((name) => [name, expect.anything()])),
      },
    },
  });
  expect(text).not.toMatch(/"(?:clientId|redirectUris|createdAt|expiresInDays)"/);
});
