import { windows, type WindowName } from '#page-files';

/** What no page of ours may do, whatever it shows. */
export const sealed = {
  contextIsolation: true,
  sandbox: true,
  nodeIntegration: false,
  webviewTag: false,
  navigateOnDragDrop: false,
  spellcheck: false,
} as const;

/** How a window is made; it is shown once there is something in it. */
export function windowLook(name: WindowName, dark: boolean) {
  const { title, width, height } = windows[name];
  return {
    title: `${title} · Latchkey`,
    width,
    height,
    minWidth: 420,
    minHeight: 360,
    show: false,
    fullscreenable: false,
    autoHideMenuBar: true,
    backgroundColor: dark ? '#10161a' : '#f7fafa',
  };
}
