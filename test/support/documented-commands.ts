/**
 * Runs the commands of a document as a reader types them, one after another in one terminal, and checks what they print.
 *
 * HTML comments, which a reader does not see, mark what to run and what to check:
 *
 *     <!-- test: install -->                     before a code block: run it; the name is optional
 *     <!-- test: start, background -->           leave it running in a terminal of its own, go on once it has printed the output
 *     <!-- test: login, without keychain -->     only on a machine without a keychain; also: with keychain
 *     <!-- test: add, types mcp_ -->             type the last printed word that begins with this
 *     <!-- output -->                            before a code block: what the commands before it print; … stands for any text,
 *                                                a line with nothing else for any lines
 *     <!-- by hand: make the first owner -->     a person does here what the prose around it says
 *     <!-- not tested: why -->                   before a code block with commands that cannot be run here
 *
 * A code block of commands without a comment is an error.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { readMarkdown, type CodeBlock } from './markdown.ts';

/** Commands to run, or something a person does. */
export type Step =
  | {
      readonly kind: 'commands';
      readonly line: number;
      readonly name: string;
      readonly text: string;
      readonly background: boolean;
      /** Set for commands for only one kind of machine: with a keychain, or without. */
      readonly keychain: boolean | undefined;
      /** The beginning of the printed word that is typed. */
      readonly types: string | undefined;
      readonly output: string | undefined;
    }
  | { readonly kind: 'by hand'; readonly line: number; readonly name: string };

type Commands = Extract<Step, { kind: 'commands' }>;

export interface Reader {
  /** Where the first command is typed. */
  readonly folder: string;
  /** An empty folder for what the terminal remembers. */
  readonly stateFolder: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly hasKeychain: boolean;
  /** Replacements for texts in commands and outputs, such as a port that is free here. */
  readonly instead: Readonly<Record<string, string>>;
  /** The actions of a person, by name; `printed` is all output so far. */
  readonly byHand: Readonly<Record<string, (printed: string) => Promise<void>>>;
  /** For one code block. */
  readonly timeoutMs: number;
}

const shells = new Set(['sh', 'bash', 'console', 'shell']);

/**
 * The steps of a document, in its order.
 *
 * @throws {Error} naming the line of a comment or block that is not understood
 */
export function stepsOf(markdown: string): Step[] {
  const { prose, blocks } = readMarkdown(markdown);
  const steps: Step[] = [];
  for (const block of blocks) {
    const { line, language, marker } = block;
    const wrong = (why: string) => new Error(`line ${line}: ${why}`);
    const [, kind = '', rest = ''] = /^([a-z ]+?)(?::\s*(.*))?$/.exec(marker ?? '') ?? [];
    if (kind === 'test') {
      steps.push(commandsOf(block, rest));
    } else if (kind === 'output') {
      const last = steps.at(-1);
      if (last?.kind !== 'commands' || last.output !== undefined)
        throw wrong('an output without the commands that print it');
      steps[steps.length - 1] = { ...last, output: block.text };
    } else if (shells.has(language) && !(kind === 'not tested' && rest !== '')) {
      throw wrong('commands without a comment that says how they are tested');
    }
  }
  const marked = new Set(blocks.map(({ line }) => line - 1));
  for (const { number, text } of prose) {
    const [, comment] = /^\s*<!--\s*(.*?)\s*-->\s*$/.exec(text) ?? [];
    const [, name] = /^by hand: (.+)$/.exec(comment ?? '') ?? [];
    if (name !== undefined) {
      steps.push({ kind: 'by hand', line: number, name });
    } else if (comment !== undefined) {
      const isKnown = /^(test|output|not tested)\b/.test(comment) && marked.has(number);
      if (!isKnown) throw new Error(`line ${number}: '${comment}' is not understood`);
    }
  }
  return steps.sort((one, other) => one.line - other.line);
}

function commandsOf({ line, text }: CodeBlock, described: string): Commands {
  const words = described.split(/\s*,\s*/).filter(Boolean);
  const isOption = (word: string) => /^(background|with(out)? keychain|types \w+_)$/.test(word);
  const [name = '', ...more] = words.filter((word) => !isOption(word));
  if (more.length > 0) throw new Error(`line ${line}: '${more.join(', ')}' is not understood`);
  const types = words.find((word) => word.startsWith('types '))?.slice('types '.length);
  const keychain =
    words.includes('with keychain') || (words.includes('without keychain') ? false : undefined);
  return {
    kind: 'commands',
    line,
    name,
    text,
    background: words.includes('background'),
    keychain,
    types,
    output: undefined,
  };
}

/** A reader's terminals; disposing of them ends the programs that still run in them. */
export class Terminals implements AsyncDisposable {
  /** All output so far, of all terminals. */
  printed = '';
  /** How many commands were typed. */
  count = 0;
  readonly #reader: Reader;
  readonly #running: Shell[] = [];

  constructor(reader: Reader) {
    this.#reader = reader;
    mkdirSync(reader.stateFolder, { recursive: true });
    writeFileSync(join(reader.stateFolder, 'folder'), reader.folder);
    writeFileSync(join(reader.stateFolder, 'variables'), '');
  }

  /**
   * Follows the steps, one after another.
   *
   * @throws {Error} naming document and line, when commands fail or print something else
   */
  async follow(document: string, steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      const { hasKeychain, byHand } = this.#reader;
      const at = `${document}:${step.line}`;
      if (step.kind === 'by hand') {
        const act = byHand[step.name];
        if (!act) throw new Error(`${at}: nobody knows how to '${step.name}'`);
        await act(this.printed);
      } else if (step.keychain === undefined || step.keychain === hasKeychain) {
        await this.#run(step, at);
      }
    }
  }

  async #run(step: Commands, at: string): Promise<void> {
    const { timeoutMs } = this.#reader;
    const text = this.#here(step.text);
    this.count += commandCount(text);
    const shell = this.#open(text, step);
    const expected = step.output === undefined ? undefined : this.#here(step.output);
    const failed = (why: string) =>
      new Error(
        `${at}: ${why}\n${text}\nexpected:\n${expected ?? '(anything)'}\nprinted:\n${shell.printed}`,
      );
    if (step.background) {
      if (expected === undefined) throw failed('left running without an output to wait for');
      if (!(await shell.prints(outputPattern(expected, false), timeoutMs)))
        throw failed(shell.code === undefined ? 'does not print this' : 'ended');
      return;
    }
    if (!(await shell.ends(timeoutMs))) throw failed(`still runs after ${timeoutMs} ms`);
    if (shell.code !== 0) throw failed(`exit code ${shell.code}`);
    if (expected !== undefined && !outputPattern(expected, true).test(shell.printed.trimEnd()))
      throw failed('prints something else');
  }

  #open(text: string, { background, types }: Commands): Shell {
    const { env, stateFolder } = this.#reader;
    const remember = `export -p >'${stateFolder}/variables'; pwd >'${stateFolder}/folder'`;
    const script = [
      // Variables keep their values from block to block, as in a terminal.
      'exec 2>&1; set -aeo pipefail',
      `. '${stateFolder}/variables'; cd "$(cat '${stateFolder}/folder')"`,
      ...(background ? [] : [`trap "${remember}" EXIT`]),
      text,
    ].join('\n');
    const shell = new Shell(script, env, (chunk) => (this.printed += chunk));
    if (background) this.#running.push(shell);
    shell.type(types === undefined ? '' : `${this.#lastWord(types)}\n`);
    return shell;
  }

  #lastWord(prefix: string): string {
    const found = [...this.printed.matchAll(new RegExp(`${prefix}[0-9A-Za-z]+`, 'g'))].at(-1);
    if (!found) throw new Error(`nothing was printed that begins with ${prefix}`);
    return found[0];
  }

  #here(text: string): string {
    return Object.entries(this.#reader.instead).reduce(
      (changed, [written, here]) => changed.replaceAll(written, here),
      text,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.map((shell) => shell.end()));
  }
}

/** The pattern that an output must match: all of it if `whole`, otherwise its beginning. */
function outputPattern(expected: string, whole: boolean): RegExp {
  const lines = expected.trimEnd().split('\n');
  const source = lines.map((line, index) => {
    const end = index === lines.length - 1 ? '' : '\\n';
    if (line.trim() === '…') return end === '' ? '(?:.*\\n?)*?' : '(?:.*\\n)*?';
    return line.split('…').map(escaped).join('.*') + end;
  });
  return new RegExp(`^${source.join('')}${whole ? '$' : ''}`);
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/** How many commands a person types: no comments, no continuation lines, nothing inside a here-document. */
function commandCount(text: string): number {
  const typed = text.replaceAll(/<<'(\w+)'\n[\s\S]*?\n\1$/gm, '');
  return typed.split('\n').filter((line) => /^[^\s#]/.test(line)).length;
}

/** One run of bash. It and its child processes are one process group, which can be ended. */
class Shell {
  printed = '';
  /** `undefined` while it runs; a signal counts as -1. */
  code: number | undefined;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #ended: Promise<void>;
  #check = () => {};

  constructor(
    script: string,
    env: Readonly<Record<string, string>>,
    print: (text: string) => void,
  ) {
    this.#child = spawn('bash', ['-c', script], {
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    this.#child.stdin.on('error', () => {});
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.printed += text;
      print(text);
      this.#check();
    });
    const kill = () => this.#kill('SIGKILL');
    process.once('exit', kill);
    this.#ended = new Promise((resolve) => {
      this.#child.on('close', (code) => {
        process.off('exit', kill);
        this.code = code ?? -1;
        this.#check();
        resolve();
      });
    });
  }

  type(text: string): void {
    this.#child.stdin.end(text);
  }

  /** Whether it ends within this time; it is killed when not. */
  async ends(timeoutMs: number): Promise<boolean> {
    let isTimedOut = false;
    const timer = setTimeout(() => {
      isTimedOut = true;
      this.#kill('SIGKILL');
    }, timeoutMs);
    await this.#ended;
    clearTimeout(timer);
    return !isTimedOut;
  }

  /** Whether it prints this within this time, and still runs. */
  async prints(pattern: RegExp, timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (found: boolean) => {
        clearTimeout(timer);
        this.#check = () => {};
        resolve(found);
      };
      const timer = setTimeout(() => done(false), timeoutMs);
      this.#check = () => {
        if (this.code !== undefined) done(false);
        else if (pattern.test(this.printed)) done(true);
      };
      this.#check();
    });
  }

  /** Ends the process group with SIGTERM, and with SIGKILL after ten seconds. */
  async end(): Promise<void> {
    this.#kill('SIGTERM');
    await this.ends(10_000);
  }

  #kill(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid === undefined || this.code !== undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The last process of the group has just ended.
    }
  }
}
