/**
 * The ES module behind every button that copies, as browsers get it. Until it runs, and where a browser lets no page
 * copy, the buttons are hidden. It looks again whenever htmx has put something new into the page.
 */
export const copyScript = `const said = document.createElement('p');
said.className = 'unseen';
said.setAttribute('role', 'status');
document.body.append(said);

function reveal() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll('[data-copy][hidden]')) button.hidden = false;
}
reveal();
document.addEventListener('htmx:after:swap', reveal);

document.addEventListener('click', async ({ target }) => {
  const button = target.closest?.('[data-copy]');
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const text = button.textContent;
  if (text === 'Copied') return;
  button.textContent = 'Copied';
  said.textContent = 'Copied';
  setTimeout(() => { button.textContent = text; said.textContent = ''; }, 2000);
});
`;
