import { z } from 'zod';

const base64url = z.string().regex(/^[\w-]+$/);
const envelope = {
  id: base64url.max(1400),
  rawId: base64url.max(1400),
  type: z.literal('public-key'),
  clientExtensionResults: z.object({}),
};
const transport = z.enum(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb']);

/** What a browser sends that has made a passkey. WebAuthn L3 §5.1.8, RegistrationResponseJSON */
export const attestationSchema = z.object({
  ...envelope,
  response: z.object({
    clientDataJSON: base64url,
    attestationObject: base64url,
    transports: z.array(transport).max(10),
  }),
});

/** What a browser sends that has used a passkey. WebAuthn L3 §5.1.8, AuthenticationResponseJSON */
export const assertionSchema = z.object({
  ...envelope,
  response: z.object({
    clientDataJSON: base64url,
    authenticatorData: base64url,
    signature: base64url,
    userHandle: base64url.exactOptional(),
  }),
});
