// What is counted in a flame graph and made from it, without a browser: tables, searches, sandwiches, orders, changes.
import { expect, test } from '@playwright/test';
import { encodeDiff, encodeLevels, encodeResponse, synthetic } from './profiles.mjs';
import { readGraphResponse } from '../src/api/wire';
import { diffScale, diffStep, heatScale, makePaint, paintChange, PALETTES } from '../src/flame/colors';
import { levelAt, ROW, topOf, type Shape } from '../src/flame/draw';
import { buildFlame, findFrame, frameKey, nameOf, pathTo, ROOT, type Flame } from '../src/flame/model';
import { changeBy, normOf } from '../src/flame/norm';
import { folded, functionRows, heaviestFirst, markNames, matcher, outermost, sandwich, walk } from '../src/flame/stacks';
import { contrast } from './contrast';

type Stacks = [string, number][];
const graph = (stacks: Stacks) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(stacks)))));
const byShare = (f: Flame) => normOf('share', 'a:b:c:d:e', f, { left: 1, right: 1 });
const changeOf = (f: Flame, i: number) => changeBy(byShare(f), f.total[i], f.right!.total[i]);
const change = (left: Stacks, right: Stacks) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(encodeDiff(left, right)))), true);
const rows = (f: Flame) => Object.fromEntries(functionRows(f).map((r) => [f.names[r.name], [r.self, r.total]]));
const found = (f: Flame, text: string) => outermost(f, markNames(f, matcher(text)!));
/** Every frame as its path and its numbers, in any order. */
const frames = (f: Flame) => [...f.name.keys()].map((i) => [pathTo(f, i).map((p) => nameOf(f, p)).join(';'), f.total[i], f.self[i]]).sort();

/** r calls itself; q is below and above it. */
const RECURSIVE: Stacks = [['m;r', 3], ['m;r;q;r', 4], ['m;r;r;r', 5], ['q;r', 8]];

test('a walk meets every frame once, callers before callees, and leaves them in turn', () => {
  const f = graph(synthetic(500)), met = new Set<number>(), open: number[] = [], wrong: number[] = [];
  walk(f, ROOT, (i) => {
    if (f.parent[i] !== (open[open.length - 1] ?? -1)) wrong.push(i);
    met.add(i);
    open.push(i);
  }, (i) => {
    if (open.pop() !== i) wrong.push(i);
  });
  expect(wrong).toEqual([]);
  expect(met.size).toBe(f.count);
  expect(open).toEqual([]);
});

test('in the table a recursive function has the total of its outermost frames and the self of all', () => {
  expect(rows(graph(RECURSIVE))).toEqual({ m: [0, 12], q: [0, 12], r: [20, 20] });
});

test('the table of a big graph adds up to its total', () => {
  const f = graph(synthetic(2000)), all = functionRows(f);
  expect(all.reduce((sum, r) => sum + r.self, 0)).toBe(f.total[ROOT]);
  expect(all.filter((r) => r.total < r.self)).toEqual([]);
  expect(Math.max(...all.map((r) => r.total))).toBeLessThanOrEqual(f.total[ROOT]);
});

test('a search counts nested hits once', () => {
  const f = graph(RECURSIVE);
  expect(found(f, 'r').total).toBe(20);
  expect(found(f, '^q$').total).toBe(12);
  expect(found(f, 'm|r').frames.map((i) => nameOf(f, i)).sort()).toEqual(['m', 'r']);
  expect(found(f, 'total').total).toBe(0); // the root is no function
  expect(found(f, 'nothing').frames).toEqual([]);
});

test('a search is a regular expression in either case, or plain text if it is none', () => {
  expect(matcher('')).toBeNull();
  expect(['runtime.mallocgc', 'MALLOC', 'free'].map(matcher('^runtime|Malloc')!)).toEqual([true, true, false]);
  expect(['(*Head).Flush', 'Head'].map(matcher('(*head)')!)).toEqual([true, false]);
});

test('both halves of a sandwich are as wide as the function, and recursion is in them once', () => {
  const f = graph(RECURSIVE), { callers, callees } = sandwich(f, 'r')!;
  expect([callers.total[ROOT], callees.total[ROOT], found(f, '^r$').total]).toEqual([20, 20, 20]);
  expect(frames(callees)).toEqual([['', 20, 11], ['q', 4, 0], ['q;r', 4, 4], ['r', 5, 0], ['r;r', 5, 5]]);
  expect(frames(callers)).toEqual([['', 20, 11], ['m', 12, 0], ['q', 8, 0]]);
  expect(sandwich(f, 'absent')).toBeNull();
  expect(sandwich(f, 'total')).toBeNull();
});

test('in every sandwich of a big graph frames lie within their callers, heaviest first', () => {
  const f = graph(synthetic(300)), wrong: string[] = [];
  for (const r of functionRows(f).slice(0, 40)) {
    const name = f.names[r.name], halves = sandwich(f, name)!;
    for (const h of [halves.callers, halves.callees]) {
      if (h.total[ROOT] !== r.total) wrong.push(`${name} is not as wide`);
      for (let i = 1; i < h.count; i++) {
        const p = h.parent[i];
        if (h.x[i] < h.x[p] - 1e-9 || h.x[i] + h.w[i] > h.x[p] + h.w[p] + 1e-9) wrong.push(`${name} ${i} is outside`);
        if (h.parent[i - 1] === p && h.total[i] > h.total[i - 1]) wrong.push(`${name} ${i} is heavier`);
      }
    }
    if (halves.callees.self.reduce((sum, v) => sum + v, 0) !== r.total) wrong.push(`${name} does not add up`);
  }
  expect(wrong).toEqual([]);
});

test('the order of the heaviest changes places only', () => {
  const f = graph(synthetic(300)), g = heaviestFirst(f), wrong: number[] = [];
  expect(frames(g).join('\n')).toBe(frames(f).join('\n'));
  for (let i = 1; i < g.count; i++) {
    const p = g.parent[i], first = i === g.firstChild[p];
    if (Math.abs(g.x[i] - (first ? g.x[p] : g.x[i - 1] + g.w[i - 1])) > 1e-9) wrong.push(i);
    if (!first && g.total[i] > g.total[i - 1]) wrong.push(i);
  }
  expect(wrong).toEqual([]);
  for (const i of [3, 50, g.count - 1]) expect(frameKey(f, findFrame(f, frameKey(g, i)))).toBe(frameKey(g, i));
});

test('folded stacks are those that were pushed', () => {
  expect(folded(graph(RECURSIVE)).trim().split('\n').sort()).toEqual(RECURSIVE.map(([stack, v]) => `${stack} ${v}`).sort());
  expect(folded(graph([]))).toBe('');
});

// The example of the wire contract: L a;b=1, a;c=2; R a;b=4, a;c=8.
const LEFT: Stacks = [['a;b', 1], ['a;c', 2]], RIGHT: Stacks = [['a;b', 4], ['a;c', 8]];

test('a comparison has both sides and is as wide as the mean of the shares', () => {
  expect(encodeDiff(LEFT, RIGHT).levels).toEqual([[0, 3, 0, 0, 12, 0, 0], [0, 3, 0, 0, 12, 0, 1], [0, 1, 1, 0, 4, 4, 2, 0, 2, 2, 0, 8, 8, 3]]);
  const f = change(LEFT, RIGHT), at = (name: string) => [...f.name.keys()].find((i) => nameOf(f, i) === name)!;
  expect([f.total[ROOT], f.right!.total[ROOT]]).toEqual([3, 12]);
  expect([f.w[at('b')], f.w[at('c')], f.x[at('c')]].map((v) => v.toFixed(6))).toEqual(['0.333333', '0.666667', '0.333333']);
  expect(changeOf(f, at('b'))).toBeCloseTo(0);
  const moved = change([['a', 3], ['b', 1]], [['a', 1], ['b', 3]]), b = [...moved.name.keys()].find((i) => nameOf(moved, i) === 'b')!;
  expect(changeOf(moved, b)).toBeCloseTo(0.5);
  expect(moved.w[b]).toBeCloseTo(0.5);
});

test('a comparison with an empty side has the widths of the other', () => {
  const f = change([], RIGHT);
  expect(f.right!.total[ROOT]).toBe(12);
  expect(f.w[ROOT]).toBeCloseTo(1);
  expect(changeOf(change([], []), ROOT)).toBe(0);
});

test('table, search and sandwich of a comparison count both sides', () => {
  const f = change([['m;r', 3], ['m;r;r', 1]], [['m;r', 5], ['n;r;r', 5]]), r = functionRows(f).find((row) => f.names[row.name] === 'r')!;
  expect([r.self, r.total, r.rightSelf, r.rightTotal]).toEqual([4, 4, 10, 10]);
  expect([found(f, 'r').total, found(f, 'r').rightTotal]).toEqual([4, 10]);
  const { callers } = sandwich(f, 'r')!;
  expect([...callers.name.keys()].map((i) => [nameOf(callers, i), callers.total[i], callers.right!.total[i]])).toEqual([['r', 4, 10], ['m', 4, 5], ['n', 0, 5]]);
});

test('rows grow down or up, and a place finds its level again', () => {
  const f = graph([['a;b;c', 1]]), shapes: Shape[] = [{ upward: false, firstLevel: 0 }, { upward: true, firstLevel: 1 }, { upward: false, firstLevel: 1 }];
  for (const shape of shapes) {
    for (const height of [10, 250]) {
      for (let level = shape.firstLevel; level < f.depth; level++) {
        const top = topOf(f, shape, level, height);
        expect([levelAt(f, shape, top, height), levelAt(f, shape, top + ROW - 1, height)]).toEqual([level, level]);
      }
    }
  }
  expect(levelAt(f, shapes[1], 0, 250)).toBe(-1);
  expect(topOf(f, shapes[1], 1, 250)).toBe(230); // the nearest caller touches the function below it
});

test('text on every colour of a measure has the contrast of WCAG AA', () => {
  for (const theme of ['dark', 'light'] as const) {
    const scales = [heatScale(theme), diffScale(theme, 'safe'), diffScale(theme, 'classic')];
    for (const color of scales.flat()) expect(contrast(color, PALETTES[theme].text), `${theme} ${color}`).toBeGreaterThan(4.5);
  }
});

test('the colour of a change says which way and how far, and what is cut off has none', () => {
  const n = diffScale('dark', 'safe').length, middle = (n - 1) / 2;
  expect([0, 0.0004, -0.0004].map(diffStep)).toEqual([middle, middle, middle]);
  expect([diffStep(0.001), diffStep(-0.001)]).toEqual([middle + 1, middle - 1]);
  expect([diffStep(0.25), diffStep(-0.9)]).toEqual([n - 1, 0]);
  const f = change([['a', 3], ['other', 1]], [['a', 1], ['other', 3]]), paint = paintChange(f, 'light', 'classic', byShare(f));
  const style = (name: string) => paint.styleOf(f, [...f.name.keys()].find((i) => nameOf(f, i) === name)!);
  expect(style('a')).toBe(0);
  expect(style('other')).toBe(paint.rest);
});

test('colours by function and by self share', () => {
  const f = graph([['a.x', 90], ['a.y', 9], ['a.z;b.w', 1]]), self = makePaint(f, 'dark', 'self');
  const style = (name: string) => self.styleOf(f, [...f.name.keys()].find((i) => nameOf(f, i) === name)!);
  expect([style('total'), style('a.z')]).toEqual([0, 0]);
  expect(style('a.x')).toBe(self.scale!.colors.length - 1);
  expect(style('b.w')).toBeGreaterThan(0);
  expect(style('b.w')).toBeLessThan(style('a.y'));
  expect(makePaint(f, 'dark', 'function').legendOf).toBeNull();
});
