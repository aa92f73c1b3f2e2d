/**
 * The ES module of the page that creates the first owner. It derives the name in URLs from the title, as `slugOf` does, until the person
 * types another name. Without the script, the server asks before it uses that name.
 */
export const setUpScript = String.raw`const name = document.querySelector('[data-slug-of]');
const title = name && document.getElementById(name.dataset.slugOf);
const slugOf = (text) =>
  text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('\u00df', 'ss')
    .split(/[^a-z0-9]+/).filter(Boolean).join('-').slice(0, 63).replace(/-+$/, '');
let given = name?.value ?? '';
title?.addEventListener('input', () => {
  if (name.value !== given && name.value !== '') return;
  given = slugOf(title.value);
  name.value = given;
});
`;
