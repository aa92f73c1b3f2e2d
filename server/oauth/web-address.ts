/** Whether `text` is an https URL that a page may show or link: nothing that a browser would run. */
export function isWebAddress(text: string): boolean {
  if (!/^https:\/\/[\x21-\x7e]+$/.test(text) || /[<>"'`\\^{|}]|\$\(/.test(text)) return false;
  return URL.canParse(text);
}
