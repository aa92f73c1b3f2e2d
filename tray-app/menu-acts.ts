import type { Answers } from '#answers';
import type { MenuAction } from '#menu';
import type { WindowName } from '#page-files';

export type MenuActsPorts = {
  answers: Answers;
  openWindow: (window: WindowName, name?: string) => void;
  startAtLogin: (on: boolean) => void;
  quit: () => void;
};

/** Does what a click in the menu, or on a notice, asks for. */
export function menuActs({
  answers,
  openWindow,
  startAtLogin,
  quit,
}: MenuActsPorts): (action: MenuAction) => void {
  return (action) => {
    switch (action.do) {
      case 'open':
        return openWindow(action.window);
      case 'rotate':
        return openWindow('key', action.name);
      case 'startAtLogin':
        return startAtLogin(action.on);
      case 'quit':
        return quit();
      case 'signIn':
      case 'cancelSignIn':
      case 'signOut':
      case 'reconnect':
      case 'openDashboard':
        return void answers[action.do]({ name: action.name }).then(({ ok }) => {
          // A menu is closed by now; what went wrong stands in the window.
          if (!ok) openWindow('connections');
        });
    }
  };
}
