import type { ConnectionView } from '#contract';

/** Names the thing, and counts what stops working. */
export function askWhetherToRemove(
  { name, url, startedBy, as }: ConnectionView,
  remove: () => void,
): void {
  const dialog = document.querySelector<HTMLDialogElement>('#sure');
  if (!dialog) return;
  const used =
    startedBy.length === 0
      ? 'No assistant starts it.'
      : `${startedBy.join(', ')} ${startedBy.length === 1 ? 'starts it and loses' : 'start it and lose'} access now.`;
  const forgotten =
    as === 'person' ? 'You are signed out at the server.' : 'What is kept of it is forgotten.';
  const words: [string, string][] = [
    ['h2', `Remove ${name}?`],
    ['p', `${url}. ${used} ${forgotten}`],
  ];
  dialog.replaceChildren(
    ...words.map(([tag, text]) => {
      const element = document.createElement(tag);
      if (tag === 'h2') element.id = 'sure-title';
      element.textContent = text;
      return element;
    }),
    choices(dialog, remove),
  );
  dialog.showModal();
}

function choices(dialog: HTMLDialogElement, remove: () => void): HTMLElement {
  const row = document.createElement('div');
  row.className = 'actions';
  const choice = (label: string, kind: string, chosen: () => void) => {
    const element = document.createElement('button');
    element.type = 'button';
    element.className = kind;
    element.textContent = label;
    element.addEventListener('click', () => {
      dialog.close();
      chosen();
    });
    return element;
  };
  row.append(
    choice('Remove', 'danger', remove),
    choice('Keep it', '', () => {}),
  );
  return row;
}
