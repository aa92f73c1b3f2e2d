/** Types of the part of postject that the build uses. The package has none. */
declare module 'postject' {
  /** Puts `content` into the executable `file` as the resource `name`, and flips its fuse. */
  export function inject(
    file: string,
    name: string,
    content: Buffer,
    options: { sentinelFuse: string; machoSegmentName?: string },
  ): Promise<void>;
}
