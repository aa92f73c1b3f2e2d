/**
 * The ES module behind every copy button. The buttons stay hidden until it runs, and where the browser does not allow
 * pages to copy. It runs again whenever htmx changes the page.
 */
export const copyScript = `const announcement = document.createElement('p');
announcement.className = 'unseen';
announcement.setAttribute('role', 'status');
document.body.append(announcement);

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
  announcement.textContent = 'Copied';
  setTimeout(() => { button.textContent = text; announcement.textContent = ''; }, 2000);
});
`;
