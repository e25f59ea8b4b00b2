// What can be counted in a flame graph, and the other pictures that can be made from it. A recursive function is never
// counted twice: wherever totals of functions are summed, only the outermost of its frames on a stack adds to them.
import type { NamedRow } from '../api/client';
import { emptyFlame, ROOT, type Flame } from './model';

/** Depth first, without recursion. `enter` answers false to leave out what lies below. */
export function walk(f: Flame, from: number, enter: (frame: number) => boolean | void, leave?: (frame: number) => void): void {
  if (enter(from) === false) {
    leave?.(from);
    return;
  }
  const stack = new Int32Array(f.depth + 1), next = new Int32Array(f.depth + 1);
  stack[0] = from;
  for (let d = 0; d >= 0; ) {
    const frame = stack[d];
    if (next[d] >= f.children[frame]) {
      leave?.(frame);
      d--;
      continue;
    }
    const child = f.firstChild[frame] + next[d]++;
    if (enter(child) === false) {
      leave?.(child);
      continue;
    }
    stack[++d] = child;
    next[d] = 0;
  }
}

/** One function of the table. The values of `right` are 0 unless two profiles are compared. */
export interface FunctionRow { name: number; self: number; total: number; rightSelf: number; rightTotal: number }

/** Every function but the root, once. */
export function functionRows(f: Flame): FunctionRow[] {
  const rows = new Map<number, FunctionRow>(), open = new Int32Array(f.names.length);
  const enter = (i: number) => {
    if (i === ROOT) return;
    const name = f.name[i];
    let row = rows.get(name);
    if (!row) rows.set(name, (row = { name, self: 0, total: 0, rightSelf: 0, rightTotal: 0 }));
    row.self += f.self[i];
    if (f.right) row.rightSelf += f.right.self[i];
    if (open[name]++ > 0) return;
    row.total += f.total[i];
    if (f.right) row.rightTotal += f.right.total[i];
  };
  walk(f, ROOT, enter, (i) => {
    if (i !== ROOT) open[f.name[i]]--;
  });
  return [...rows.values()];
}

export const namedRows = (f: Flame): NamedRow[] => functionRows(f).map((r) => ({ ...r, name: f.names[r.name] }));

export interface Matched { hits: number[]; frames: number[]; total: number; rightTotal: number }

/** The frames whose names are marked, callers before callees; the outermost of them, and their sums. */
export function outermost(f: Flame, marked: Uint8Array): Matched {
  const found: Matched = { hits: [], frames: [], total: 0, rightTotal: 0 }, isHit = (i: number) => i !== ROOT && marked[f.name[i]] === 1;
  let inside = 0;
  walk(f, ROOT, (i) => {
    if (!isHit(i)) return;
    found.hits.push(i);
    if (inside++ > 0) return;
    found.frames.push(i);
    found.total += f.total[i];
    if (f.right) found.rightTotal += f.right.total[i];
  }, (i) => {
    if (isHit(i)) inside--;
  });
  return found;
}

/** A test of names: a regular expression in either case, or plain text if it is none. Null for an empty search. */
export function matcher(text: string): ((name: string) => boolean) | null {
  if (text === '') return null;
  try {
    const pattern = new RegExp(text, 'i');
    return (name) => pattern.test(name);
  } catch {
    const lower = text.toLowerCase();
    return (name) => name.toLowerCase().includes(lower);
  }
}

/** The names that a search finds, as marks for `outermost`, which never takes the root for a function. */
export function markNames(f: Flame, matches: (name: string) => boolean): Uint8Array {
  return Uint8Array.from(f.names, (n) => (matches(n) ? 1 : 0));
}

/** The same graph with the heaviest child on the left everywhere. What a frame has for itself is then on its right. */
export function heaviestFirst(f: Flame): Flame {
  const g = emptyFlame(f.names, f.levelStart, f.right !== null), old = new Int32Array(f.count);
  g.x[ROOT] = f.x[ROOT];
  for (let i = 0, next = 1; i < f.count; i++) {
    const from = old[i];
    g.name[i] = f.name[from];
    g.total[i] = f.total[from];
    g.self[i] = f.self[from];
    g.w[i] = f.w[from];
    g.repeats[i] = f.repeats[from];
    if (g.right && f.right) {
      g.right.total[i] = f.right.total[from];
      g.right.self[i] = f.right.self[from];
    }
    const n = f.children[from];
    g.children[i] = n;
    g.firstChild[i] = next;
    const run = old.subarray(next, next + n);
    for (let k = 0; k < n; k++) run[k] = f.firstChild[from] + k;
    if (n > 1) run.sort((a, b) => f.w[b] - f.w[a] || a - b);
    for (let k = 0, x = g.x[i]; k < n; k++, next++) {
      g.parent[next] = i;
      g.x[next] = x;
      x += f.w[run[k]];
    }
  }
  return g;
}

/** Folded stacks, a line for each that has something of its own, as flamegraph.pl and others read them. */
export function folded(f: Flame): string {
  const path: string[] = [], lines: string[] = [];
  walk(f, ROOT, (i) => {
    if (i !== ROOT) path.push(f.names[f.name[i]].replaceAll(';', ':'));
    if (f.self[i] && path.length > 0) lines.push(`${path.join(';')} ${f.self[i]}`);
  }, () => path.pop());
  return lines.join('\n') + (lines.length > 0 ? '\n' : '');
}

/** A tree under construction. */
export interface Node {
  name: number; w: number; total: number; self: number; rightTotal: number; rightSelf: number; children: Map<number, Node> | null;
  parent: Node | null; open: number; most: number; // of a folded graph: the caller, frames of one stack in it now, and at most
}

export function makeNode(name: number): Node {
  return { name, w: 0, total: 0, self: 0, rightTotal: 0, rightSelf: 0, children: null, parent: null, open: 0, most: 0 };
}

export function childOf(n: Node, name: number): Node {
  n.children ??= new Map();
  let child = n.children.get(name);
  if (!child) n.children.set(name, (child = makeNode(name)));
  return child;
}

export function add(n: Node, f: Flame, frame: number, withSelf: boolean): void {
  n.w += f.w[frame];
  n.total += f.total[frame];
  if (withSelf) n.self += f.self[frame];
  if (!f.right) return;
  n.rightTotal += f.right.total[frame];
  if (withSelf) n.rightSelf += f.right.self[frame];
}

export interface Sandwich { callers: Flame; callees: Flame }

/**
 * A function between those that call it and those that it calls. Both halves start from its outermost frames, so both
 * are as wide as its total: callees merge what lies below them (a frame of the function within itself stays its
 * child), callers merge the ways up, each weighing what the frame weighs. Null if the function is not there.
 */
export function sandwich(f: Flame, name: string): Sandwich | null {
  const index = f.names.indexOf(name), marked = new Uint8Array(f.names.length);
  if (index >= 0) marked[index] = 1;
  const { frames } = outermost(f, marked);
  if (frames.length === 0) return null;
  const up = makeNode(index), down = makeNode(index), above: Node[] = [];
  for (const frame of frames) {
    add(up, f, frame, true);
    for (let at = up, p = f.parent[frame]; p > ROOT; p = f.parent[p]) {
      at = childOf(at, f.name[p]);
      add(at, f, frame, false);
    }
    walk(f, frame, (i) => {
      const node = i === frame ? down : childOf(above[above.length - 1], f.name[i]);
      add(node, f, i, true);
      above.push(node);
    }, () => above.pop());
  }
  return { callers: layOut(up, f), callees: layOut(down, f) };
}

/** A tree as columns, heaviest child first or in another order. */
export function layOut(root: Node, of: Flame, order = (a: Node, b: Node) => b.w - a.w): Flame {
  const levels: Node[][] = [], starts = [0];
  for (let row = [root]; row.length > 0; ) {
    levels.push(row);
    starts.push(starts[starts.length - 1] + row.length);
    row = row.flatMap((n) => (n.children ? [...n.children.values()].sort(order) : []));
  }
  const g = emptyFlame(of.names, Int32Array.from(starts), of.right !== null), scale = 1 / (root.w || 1);
  for (let l = 0, i = 0, next = 1; l < levels.length; l++) {
    for (const n of levels[l]) {
      g.name[i] = n.name;
      g.total[i] = n.total;
      g.self[i] = n.self;
      g.repeats[i] = n.most;
      if (g.right) {
        g.right.total[i] = n.rightTotal;
        g.right.self[i] = n.rightSelf;
      }
      g.w[i] = n.w * scale;
      g.children[i] = n.children?.size ?? 0;
      g.firstChild[i] = next;
      // The row below was sorted by caller and weight, so the children of this frame are the next ones in it.
      for (let k = 0, x = g.x[i]; k < g.children[i]; k++, next++) {
        g.parent[next] = i;
        g.x[next] = x;
        x += levels[l + 1][next - g.levelStart[l + 1]].w * scale;
      }
      i++;
    }
  }
  return g;
}
