import type { Credential } from '#contract';
import type { Found, Way } from './add-step.ts';
import { typedText } from './typed-text.ts';

/** What the person has filled in; the pasted text goes back to where its secret was read. */
export function typedCredential(
  way: Way,
  data: FormData,
  { needsClientId }: Found,
  pastedText: string,
): Credential {
  switch (way) {
    case 'pasted':
      return { as: 'pasted', pastedText };
    case 'api_key':
      return { as: 'api_key', apiKeySecret: typedText(data, 'secret') };
    case 'client':
      return {
        as: 'client',
        clientId: typedText(data, 'client'),
        clientSecret: typedText(data, 'secret'),
        scopes: typedText(data, 'scopes')
          .split(/[\s,]+/)
          .filter(Boolean),
      };
    case 'person': {
      const clientId = typedText(data, 'client');
      return { as: 'person', ...(needsClientId && clientId !== '' && { clientId }) };
    }
  }
}
