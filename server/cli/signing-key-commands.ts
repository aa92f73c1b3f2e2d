import { join } from 'node:path';

import { json, masterKeyFile } from '#config/option';
import { readMasterKey } from '#signing/master-key';
import { rotateSigningKey } from '#signing/rotate-signing-key';
import type { Command } from './command.ts';
import { printMade } from './print.ts';

export const signingKeyRotate: Command = {
  words: 'signing-key rotate',
  positionals: [],
  options: [masterKeyFile, json],
  doc: 'sign with a new key; tokens of the old one count until they expire',
  async run(input, { stores, clock, out }) {
    const file = input.text('master-key-file') ?? join(input.must('data-dir'), 'master.key');
    const mayCreate = (await stores.signingKeys.list()).length === 0;
    const masterKey = readMasterKey(file, { mayCreate });
    const kid = await rotateSigningKey(stores.signingKeys, { masterKey, clock });
    await stores.audit.append({
      at: clock.now(),
      actor: 'operator',
      organization: undefined,
      action: 'signing-key.rotate',
      target: `signing-key:${kid}`,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
    printMade({ kid, created_at: clock.now() }, { json: input.flag('json'), out });
  },
};
