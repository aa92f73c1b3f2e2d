import type { Form } from './form.ts';

/** The client that a request says it comes from, nothing of it checked. */
export function claimedClient(form: Form, authorization: string | undefined): string | undefined {
  const encoded = /^Basic +([\w+/=-]+)$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return form.get('client_id');
  return Buffer.from(encoded, 'base64').toString('utf8').split(':')[0];
}
