/** What of Electron's session decides about permissions. */
export type Permissions = {
  setPermissionRequestHandler: (
    handler: (contents: unknown, permission: string, decide: (granted: boolean) => void) => void,
  ) => void;
  setPermissionCheckHandler: (handler: () => boolean) => void;
  setDevicePermissionHandler: (handler: () => boolean) => void;
};

/** The pages need no camera, no place, no clipboard, no notification of their own. */
export function denyPermissions(session: Permissions): void {
  session.setPermissionRequestHandler((_contents, _permission, decide) => decide(false));
  session.setPermissionCheckHandler(() => false);
  session.setDevicePermissionHandler(() => false);
}
