/** The ES module behind the passkey buttons, as browsers get it. A page works without it. WebAuthn L3 §5.1 */
export const passkeysScript = `const bytes = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const withIds = (list = []) => list.map((entry) => ({ ...entry, id: bytes(entry.id) }));

async function post(path, body) {
  const token = document.querySelector('input[name=csrf_token]')?.value ?? '';
  const answer = await fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': token },
    body: JSON.stringify(body),
  });
  const json = await answer.json();
  if (!answer.ok) throw new Error(json.message);
  return json;
}

async function add(name) {
  const options = await post('/account/passkeys/options', {});
  const made = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytes(options.challenge),
      user: { ...options.user, id: bytes(options.user.id) },
      excludeCredentials: withIds(options.excludeCredentials),
    },
  });
  const response = {
    clientDataJSON: text(made.response.clientDataJSON),
    attestationObject: text(made.response.attestationObject),
    transports: made.response.getTransports?.() ?? [],
  };
  await post('/account/passkeys', { name, credential: envelope(made, response) });
  location.assign('/account?done=passkey');
}

async function signIn() {
  const options = await post('/sign-in/passkey/options', {});
  const used = await navigator.credentials.get({
    publicKey: {
      ...options,
      challenge: bytes(options.challenge),
      allowCredentials: withIds(options.allowCredentials),
    },
  });
  const { clientDataJSON, authenticatorData, signature, userHandle } = used.response;
  const response = {
    clientDataJSON: text(clientDataJSON),
    authenticatorData: text(authenticatorData),
    signature: text(signature),
    ...(userHandle && { userHandle: text(userHandle) }),
  };
  const next = document.querySelector('input[name=next]')?.value ?? '';
  const { location: place } = await post('/sign-in/passkey', {
    next,
    credential: envelope(used, response),
  });
  location.assign(place);
}

const envelope = (credential, response) => ({
  id: credential.id,
  rawId: text(credential.rawId),
  type: credential.type,
  clientExtensionResults: {},
  response,
});

async function attempt(button, act) {
  const error = document.querySelector('[data-passkey-error]');
  error.hidden = true;
  button.disabled = true;
  try {
    await act();
  } catch (reason) {
    error.textContent =
      reason.name === 'NotAllowedError'
        ? 'The passkey was not used. Try again, or sign in another way.'
        : reason.name === 'InvalidStateError'
          ? 'This device already has a passkey for your account.'
          : reason.message;
    error.hidden = false;
  } finally {
    button.disabled = false;
  }
}

if (window.PublicKeyCredential) {
  for (const hidden of document.querySelectorAll('[data-passkeys], [data-passkey]')) hidden.hidden = false;
  const signInButton = document.querySelector('[data-passkey=sign-in]');
  signInButton?.addEventListener('click', () => attempt(signInButton, signIn));
  const form = document.querySelector('form[data-passkeys]');
  form?.addEventListener('submit', (event) => {
    event.preventDefault();
    attempt(form.querySelector('[data-passkey=add]'), () => add(form.elements['passkey-name'].value));
  });
}
`;
