import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startOptions, variableOf } from '#server/config/option';

const folder = join(import.meta.dirname, '../../../deploy');
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map(({ parentPath, name }) => join(parentPath, name));

test('deploy: every variable is that of an option of start', () => {
  const options = new Set(startOptions.map(variableOf));
  // The Caddyfile reads this one.
  options.add('LATCHKEY_SITE');

  const used = files.flatMap((file) => readFileSync(file, 'utf8').match(/LATCHKEY_[A-Z_]+/g) ?? []);

  expect(used).toContain('LATCHKEY_BASE_URL');
  expect(used.filter((name) => !options.has(name))).toEqual([]);
});

test('deploy: the actions of the chart are written as Helm reads them', () => {
  const templates = files.filter((file) => file.includes('/templates/'));

  expect(templates).toHaveLength(2);
  for (const file of templates) {
    const text = readFileSync(file, 'utf8');
    // A YAML formatter turns {{ }} into { { } }, which is a map whose key is a map.
    expect(text).not.toMatch(/\{ +\{/);
    expect(text).toContain('{{ .Release.Name }}');
  }
});
