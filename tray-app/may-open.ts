/** Whether an address may be handed to the system: web pages, and nothing that starts a program. */
export function mayOpen(address: string): boolean {
  const url = URL.parse(address);
  if (!url || url.username !== '' || url.password !== '') return false;
  if (url.protocol === 'https:') return true;
  const here = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  return url.protocol === 'http:' && here;
}
