// A flame graph as columns of numbers in level order, 46 bytes a frame, so that everything done with 200 000 frames is
// a loop over typed arrays.
//
// Levels come as Pyroscope encodes them, 4 numbers a frame: gap to the end of the previous bar of the level, total,
// self, index of the name. The children of a frame are one run in the next level and lie within its bar:
//
//     total ──────────────────────        level 0: [0,4,0,0]
//     a ──────────────────────────        level 1: [0,4,0,1]
//     b ────── c ─────────────────        level 2: [0,1,0,4, 0,3,2,2]
//     e ──────         d ─────────        level 3: [0,1,1,5, 2,1,1,3]
//
// A comparison has 7 numbers: gap, total and self of the baseline, the same of the comparison, name. Each side is a
// whole layout of the same tree, and so is any weighted sum of the two.
import type { WireGraph } from '../api/wire';

/** What a comparison has besides the columns of its baseline. */
export interface Side { total: Float64Array; self: Float64Array }

export interface Flame {
  names: string[];
  count: number;
  depth: number;
  levelStart: Int32Array; // first frame of each level, and the count at the end
  name: Int32Array;
  parent: Int32Array; // -1 for the root
  firstChild: Int32Array;
  children: Int32Array; // how many, from firstChild on
  total: Float64Array;
  self: Float64Array;
  right: Side | null; // of a comparison; total and self are then the baseline's
  x: Float64Array; // left edge and width as shares of the root
  w: Float64Array;
  repeats: Uint16Array; // frames of one stack that were folded into this one, at most; 0 if nothing was folded
}

export const ROOT = 0;

export function emptyFlame(names: string[], levelStart: Int32Array, compared: boolean): Flame {
  const depth = levelStart.length - 1, count = levelStart[depth];
  return {
    names, count, depth, levelStart,
    name: new Int32Array(count), parent: new Int32Array(count).fill(-1),
    firstChild: new Int32Array(count), children: new Int32Array(count),
    total: new Float64Array(count), self: new Float64Array(count),
    right: compared ? { total: new Float64Array(count), self: new Float64Array(count) } : null,
    x: new Float64Array(count), w: new Float64Array(count), repeats: new Uint16Array(count),
  };
}

/** What a side's value counts in the width of a bar: the mean of the shares. One side empty: all to the other. */
export function weights(left: number, right: number): [number, number] {
  const sides = (left > 0 ? 1 : 0) + (right > 0 ? 1 : 0);
  return [left > 0 ? 1 / left / sides : 0, right > 0 ? 1 / right / sides : 0];
}

/** Takes the wire's arrays apart; they need not be kept. Refuses what is not a flame graph. */
export function buildFlame({ names, levels }: WireGraph, compared = false): Flame {
  const stride = compared ? 7 : 4, nameAt = stride - 1;
  // An answer without any level is how an empty message reads: nothing was found.
  const rows = levels.length > 0 ? levels : [new Float64Array(stride)];
  const labels = names.length > 0 ? names : ['total'];
  const levelStart = new Int32Array(rows.length + 1);
  for (let l = 0; l < rows.length; l++) {
    if (rows[l].length % stride !== 0) throw new Error('The flame graph has a broken level.');
    levelStart[l + 1] = levelStart[l] + rows[l].length / stride;
  }
  if (levelStart[1] !== 1) throw new Error('The flame graph has no single root.');
  const f = emptyFlame(labels, levelStart, compared);
  const [wl, wr] = weights(rows[0][1], compared ? rows[0][4] : 0);
  for (let l = 0, i = 0; l < f.depth; l++) {
    const v = rows[l];
    for (let j = 0, left = 0, right = 0; j < v.length; j += stride, i++) {
      f.x[i] = (left += v[j]) * wl;
      left += f.total[i] = v[j + 1];
      f.self[i] = v[j + 2];
      f.w[i] = f.total[i] * wl;
      if (f.right) {
        f.x[i] += (right += v[j + 3]) * wr;
        right += f.right.total[i] = v[j + 4];
        f.right.self[i] = v[j + 5];
        f.w[i] += f.right.total[i] * wr;
      }
      if (!(v[j + nameAt] < labels.length)) throw new Error('The flame graph names a function that it does not list.');
      f.name[i] = v[j + nameAt];
    }
  }
  link(f);
  return f;
}

/** Finds parents by the middle of each bar, which survives the rounding of the edges. */
function link(f: Flame): void {
  for (let l = 1; l < f.depth; l++) {
    const lastParent = f.levelStart[l] - 1;
    if (lastParent < f.levelStart[l - 1]) throw new Error('The flame graph has a level without frames.');
    for (let i = f.levelStart[l], p = f.levelStart[l - 1]; i < f.levelStart[l + 1]; i++) {
      const middle = f.x[i] + f.w[i] / 2;
      while (p < lastParent && f.x[p] + f.w[p] < middle) p++;
      f.parent[i] = p;
      if (f.children[p]++ === 0) f.firstChild[p] = i;
    }
  }
}

export function nameOf(f: Flame, frame: number): string {
  return f.names[f.name[frame]];
}

/** ` ×12` after the name of a frame that stands for so many. */
export const timesText = (f: Flame, frame: number): string => (f.repeats[frame] > 1 ? ` ×${f.repeats[frame]}` : '');

export function levelOf(f: Flame, frame: number): number {
  let a = 0, b = f.depth - 1;
  while (a < b) {
    const m = (a + b) >>> 1;
    if (f.levelStart[m + 1] <= frame) a = m + 1;
    else b = m;
  }
  return a;
}

/** From below the root down to the frame itself. */
export function pathTo(f: Flame, frame: number): number[] {
  const path: number[] = [];
  for (let i = frame; i > ROOT; i = f.parent[i]) path.push(i);
  return path.reverse();
}

export function heaviestChild(f: Flame, frame: number): number {
  let best = -1;
  const end = f.firstChild[frame] + f.children[frame];
  for (let i = f.firstChild[frame]; i < end; i++) if (best < 0 || f.w[i] > f.w[best]) best = i;
  return best;
}

/** A frame and all below it, level by level: on each level they are one run. */
export function below(f: Flame, frame: number, each: (frame: number) => void): void {
  for (let from = frame, to = frame + 1; from < to; ) {
    let next = -1, end = -1;
    for (let i = from; i < to; i++) {
      each(i);
      if (f.children[i] === 0) continue;
      if (next < 0) next = f.firstChild[i];
      end = f.firstChild[i] + f.children[i];
    }
    [from, to] = [next, end];
  }
}

/** No bar is narrower than nothing, but what frames have for themselves adds up to any total. */
export const totalOf = (f: Flame): number => f.total[ROOT] || f.self.reduce((sum, v) => sum + v);

/** Share of a part in the whole, 0 where there is no whole. */
export const share = (part: number, whole: number): number => (whole > 0 ? part / whole : 0);

/** FNV-1a. */
export function hashText(s: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

const step = (parent: number, name: number): number => Math.imul(parent ^ name, 0x01000193) >>> 0;

/** A frame by the names on its path, in 7 letters: short, and the same after a reload or with newer data. */
export function frameKey(f: Flame, frame: number): string {
  return pathTo(f, frame).reduce((h, i) => step(h, hashText(nameOf(f, i))), 0x811c9dc5).toString(36).padStart(7, '0');
}

const lastFound = new WeakMap<Flame, [key: string, frame: number]>();

/** The frame with that key, or -1. The graph and its legend ask for the same one. */
export function findFrame(f: Flame, key: string): number {
  const last = lastFound.get(f);
  if (last?.[0] === key) return last[1];
  const frame = searchFrame(f, key);
  lastFound.set(f, [key, frame]);
  return frame;
}

function searchFrame(f: Flame, key: string): number {
  const wanted = /^[0-9a-z]{7}$/.test(key) ? parseInt(key, 36) : -1;
  const names = Uint32Array.from(f.names, hashText), chain = new Uint32Array(f.count);
  chain[ROOT] = 0x811c9dc5;
  for (let i = 1; i < f.count; i++) {
    chain[i] = step(chain[f.parent[i]], names[f.name[i]]);
    if (chain[i] === wanted) return i;
  }
  return -1;
}
