// Folded graphs: repeats as one run, the runtime left out, and sums that stay.
import { expect, test } from '@playwright/test';
import { encodeDiff, encodeLevels, encodeResponse, synthetic } from './profiles.mjs';
import { readGraphResponse } from '../src/api/wire';
import { fold } from '../src/flame/fold';
import { buildFlame, nameOf, pathTo, ROOT, timesText, type Flame } from '../src/flame/model';
import { origin } from '../src/flame/names';
import { functionRows, heaviestFirst } from '../src/flame/stacks';

type Stacks = [string, number][];
const graph = (stacks: Stacks) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(stacks)))));
const shown = (f: Flame) => [...f.name.keys()].slice(1).map((i) => [pathTo(f, i).map((p) => nameOf(f, p) + timesText(f, p)).join(';'), f.total[i], f.self[i]]).sort();
const rows = (f: Flame) => functionRows(f).map((r) => [f.names[r.name], r.self, r.total, r.rightSelf, r.rightTotal]).sort();
const REPEATS = { repeats: true, runtime: false }, RUNTIME = { repeats: false, runtime: true };

/** Stacks of few functions, so that runs of every length follow themselves. */
function tangled(count: number, seed: number): Stacks {
  let s = seed;
  const next = (n: number) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.floor((s / 2 ** 32) * n);
  };
  return Array.from({ length: count }, () => [Array.from({ length: 1 + next(14) }, () => 'abcd'[next(4)]).join(';'), 1 + next(9)]);
}

test('a function that calls itself is one frame, with how often at most', () => {
  expect(shown(fold(graph([['m;fib;fib;fib', 3], ['m;fib;fib;leaf', 2], ['m;fib;leaf', 1]]), REPEATS))).toEqual([
    ['m', 6, 0], ['m;fib ×3', 6, 3], ['m;fib ×3;leaf', 3, 3],
  ]);
});

test('a run of functions that follows itself is one run; what is only begun again stays', () => {
  expect(shown(fold(graph([['a;b;a;b;a;b;c', 5], ['a;b;a', 2], ['a;b;a;c', 1]]), REPEATS))).toEqual([
    ['a ×3', 8, 0], ['a ×3;b ×3', 8, 0], ['a ×3;b ×3;a', 3, 2], ['a ×3;b ×3;a;c', 1, 1], ['a ×3;b ×3;c', 5, 5],
  ]);
});

test('total and self of every function stay as they are, to the last digit, in a comparison too', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const f = graph(tangled(40, seed)), g = fold(f, REPEATS);
    expect(rows(g), `seed ${seed}`).toEqual(rows(f));
    expect([g.total[ROOT], g.self[ROOT]]).toEqual([f.total[ROOT], f.self[ROOT]]);
    for (let i = 1; i < g.count; i++) {
      const path = pathTo(g, i).map((p) => nameOf(g, p)).join(' ');
      expect(path, `seed ${seed}`).not.toMatch(/(^| )(\w(?: \w)*) \2( |$)/); // nothing follows itself
    }
    const wire = readGraphResponse(new Uint8Array(encodeResponse(encodeDiff(tangled(20, seed), tangled(20, seed + 100))))), d = buildFlame(wire, true);
    expect(rows(fold(d, REPEATS)), `seed ${seed}`).toEqual(rows(d));
  }
});

test('the numbers of repeats are those of the longest stack', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const stack = tangled(1, seed)[0][0], g = fold(graph([[stack, 1]]), REPEATS);
    const folded = [...g.name.keys()].slice(1).reduce((sum, i) => sum + g.repeats[i], 0);
    expect(folded, stack).toBe(stack.split(';').length); // of one stack every frame is in one of the folded
  }
});

test('what the runtime has is its nearest shown caller\'s', () => {
  const f = graph([['runtime.main;main.main;main.work;runtime.mallocgc;runtime.memclr', 4], ['main.main;main.work', 3], ['runtime.gcBgMarkWorker;runtime.scan', 2]]);
  expect(shown(fold(f, RUNTIME))).toEqual([['main.main', 7, 0], ['main.main;main.work', 7, 7]]);
  const g = fold(f, RUNTIME);
  expect([g.total[ROOT], g.self[ROOT]]).toEqual([9, 2]);
});

test('without the runtime all else keeps its totals, and nothing is lost of the whole', () => {
  const f = graph(synthetic(2000)), g = fold(f, RUNTIME);
  const kept = (h: Flame) => rows(h).filter(([n]) => origin(n as string).kind !== 'runtime').map(([n, , total]) => [n, total]);
  expect(kept(f).length).toBeLessThan(rows(f).length);
  expect(rows(g).length).toBe(kept(f).length);
  expect(kept(g)).toEqual(kept(f));
  expect(g.self.reduce((sum, v) => sum + v, 0)).toBe(f.total[ROOT]);
  expect(functionRows(fold(f, { repeats: true, runtime: true })).length).toBe(functionRows(g).length);
});

test('frames lie within their callers in order, also with the heaviest on the left', () => {
  const f = fold(graph(tangled(300, 5)), REPEATS), wrong: number[] = [];
  for (const g of [f, heaviestFirst(f)]) {
    for (let i = 1; i < g.count; i++) {
      const p = g.parent[i];
      if (g.x[i] < g.x[p] - 1e-9 || g.x[i] + g.w[i] > g.x[p] + g.w[p] + 1e-9) wrong.push(i);
    }
    expect(Math.max(...g.repeats)).toBeGreaterThan(1);
  }
  expect(wrong).toEqual([]);
});

test('an empty graph and a very deep one', () => {
  expect(fold(graph([]), { repeats: true, runtime: true }).count).toBe(1);
  const deep = Array.from({ length: 3000 }, (_, i) => (i % 3 === 0 ? 'r' : 's')).join(';');
  expect(fold(graph([[deep, 1]]), REPEATS).count).toBeLessThan(5);
});
