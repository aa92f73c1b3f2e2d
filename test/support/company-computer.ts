import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { assertionProvider, type AssertionProvider } from './assertion-provider.ts';
import { freePort } from './loopback.ts';
import { personComputer, type PersonComputer } from './person-computer.ts';

/** A computer that Dana got from her company, which has an independent provider. */
export interface CompanyComputer extends PersonComputer {
  readonly company: AssertionProvider;
  /** Enters her name and password at the provider and consents; the outcome that the last page shows. */
  readonly signIn: () => Promise<string>;
  /** Enters them when the provider requires her password once more; `opened` runs when its page is about to open. */
  confirm(opened: () => void): Promise<string>;
  /** Opens the page of the provider, which still knows her browser. */
  readonly signInAgain: () => Promise<string>;
}

/**
 * `serversOf` returns the servers for which the managed file of the computer allows the provider; `undefined` if there is no such
 * file. It is called once the company exists.
 */
export async function companyComputer(
  serversOf: (company: AssertionProvider) => Promise<readonly string[] | undefined>,
): Promise<CompanyComputer> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const port = await freePort();
  const redirectUris = [`http://127.0.0.1:${port}/callback`];
  const company = stack.use(await assertionProvider({ redirectUris }));
  const servers = await serversOf(company);
  const { issuer, clientId, clientSecret } = company;
  const secret = { clientSecret: 'env:ACME_CLIENT_SECRET' };
  const provider = { issuer, clientId, ...secret, redirectPort: port, servers };
  const computer = stack.use(
    await personComputer((home) => {
      const file = join(home, 'managed.json');
      if (servers) writeFileSync(file, JSON.stringify({ identityProviders: [provider] }));
      return { LATCHKEY_MANAGED_FILE: file, ACME_CLIENT_SECRET: clientSecret };
    }),
  );
  const { page, click, opened, outcome } = computer;
  const enter = async (address: string) => {
    await page.goto(address);
    await page.locator('input[name=login]').fill('dana');
    await page.locator('input[name=password]').fill('x');
    await click('Sign-in');
  };
  const started = stack.move();
  return {
    ...computer,
    company,
    async signIn() {
      await enter(await opened());
      await click('Continue');
      return outcome();
    },
    async confirm(isOpening) {
      const address = await opened();
      isOpening();
      await enter(address);
      return outcome();
    },
    async signInAgain() {
      await page.goto(await opened());
      return outcome();
    },
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}
