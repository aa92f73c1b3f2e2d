/** As much of postject, which brings no types, as the build uses. */
declare module 'postject' {
  /** Puts `content` into the executable `file` as the resource `name`, and flips its fuse. */
  export function inject(
    file: string,
    name: string,
    content: Buffer,
    options: { sentinelFuse: string; machoSegmentName?: string },
  ): Promise<void>;
}
