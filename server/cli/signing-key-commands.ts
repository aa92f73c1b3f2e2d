import { join } from 'node:path';

import { json, masterKeyFile } from '#config/option';
import { listSigningKeys } from '#db/signing-keys';
import { transaction } from '#db/transaction';
import { readMasterKey } from '#secrets/master-key';
import { rotateSigningKey } from '#oauth/signing-keys';
import type { Command } from '#admin/command';
import { printMade } from '#admin/print';
import { noteOperatorAction } from './audit-note.ts';

export const signingKeyRotate: Command = {
  words: 'signing-key rotate',
  positionals: [],
  options: [masterKeyFile, json],
  doc: 'sign with a new key; tokens signed with the old one are valid until they expire',
  async run(input, { stores, clock, out }) {
    const file = input.text('master-key-file') ?? join(input.must('data-dir'), 'master.key');
    const mayCreate = (await listSigningKeys(stores.db)).length === 0;
    const masterKey = readMasterKey(file, { mayCreate });
    const kid = await transaction(stores.db, async (db) => {
      const made = await rotateSigningKey(db, { masterKey, clock });
      await noteOperatorAction('signing-key.rotate', { db, clock }, `signing-key:${made}`);
      return made;
    });
    printMade({ kid, created_at: clock.now() }, { json: input.flag('json'), out });
  },
};
