import type { Upstream } from '#gateway/upstream';
import type { ServerRecord } from '#organizations/server-record';
import { SkillFolder } from './skill-folder.ts';
import type { SkillProblem } from './read-skill-folder.ts';
import { SkillSessions } from './skill-sessions.ts';
import { SkilledUpstream } from './skilled-upstream.ts';

export interface SkillFoldersPorts {
  /** What is in the folder of a server and is not served. */
  readonly problem: (server: string, problem: SkillProblem) => void;
  readonly failed: (server: string, error: unknown) => void;
}

/** The folders of skills that the operator named, by `organization/server`. */
export class SkillFolders {
  readonly #folders: ReadonlyMap<string, SkillFolder>;
  readonly #sessions = new SkillSessions();

  private constructor(folders: ReadonlyMap<string, SkillFolder>) {
    this.#folders = folders;
  }

  static async open(
    folders: ReadonlyMap<string, string>,
    ports: SkillFoldersPorts,
  ): Promise<SkillFolders> {
    const opened = [...folders].map(async ([server, root]) => {
      const folder = await SkillFolder.open(root, {
        problem: (problem) => ports.problem(server, problem),
        failed: (error) => ports.failed(server, error),
      });
      return [server, folder] as const;
    });
    return new SkillFolders(new Map(await Promise.all(opened)));
  }

  /** The way to a server with its skills, for `owner`; the bare way where it has none. */
  upstreamOf({ organization, name }: ServerRecord, upstream: Upstream, owner: string): Upstream {
    if (this.#folders.size === 0) return upstream;
    const folder = this.#folders.get(`${organization}/${name}`);
    if (!folder) return upstream;
    return new SkilledUpstream(upstream, { folder, sessions: this.#sessions, owner });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#folders.values()].map((folder) => folder.close()));
  }
}
