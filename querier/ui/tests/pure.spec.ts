// What needs no browser: numbers, times, queries, the wire, the layout of frames, names and colours.
import { expect, test } from '@playwright/test';
import { encodeLevels, encodeResponse, synthetic } from './profiles.mjs';
import { readGraphResponse, writeMergeRequest } from '../src/api/wire';
import { choose } from '../src/choice';
import { makePaint, PALETTES } from '../src/flame/colors';
import { firstBeyond, pick } from '../src/flame/draw';
import { buildFlame, findFrame, frameKey, heaviestChild, levelOf, nameOf, pathTo, type Flame } from '../src/flame/model';
import { origin, shorter } from '../src/flame/names';
import { exact, percent, plural, value } from '../src/format';
import { isGauge, nameTypes, preferredType, typeName, unitOf } from '../src/ptype';
import { parseQuery, queryText, selector, serviceOf, withService } from '../src/query';
import { fromField, rangeText, readRange, readTime, toField } from '../src/time';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const NOW = Date.UTC(2026, 10, 21, 9, 30);

test('numbers have three digits and the unit of their size', () => {
  const cases: [number, 'nanoseconds' | 'bytes' | 'count', string][] = [
    [0, 'nanoseconds', '0'], [1, 'nanoseconds', '1 ns'], [580e6, 'nanoseconds', '580 ms'], [2.97e9, 'nanoseconds', '2.97 s'],
    [999.95e6, 'nanoseconds', '1.00 s'], [4.65e12, 'nanoseconds', '1.29 h'], [900e12, 'nanoseconds', '10.4 d'],
    [1536, 'bytes', '1.50 KiB'], [7, 'bytes', '7 B'], [2 ** 40, 'bytes', '1.00 TiB'],
    [12, 'count', '12'], [12_200, 'count', '12.2 k'], [3.5e9, 'count', '3.50 G'],
  ];
  for (const [v, unit, text] of cases) expect(value(v, unit), `${v} ${unit}`).toBe(text);
  expect([0, 0.00001, 0.0523, 0.1, 0.4434, 1].map(percent)).toEqual(['0 %', '<0.01 %', '5.23 %', '10.0 %', '44.3 %', '100.0 %']);
  expect(exact(4920000000)).toBe('4\u202f920\u202f000\u202f000');
  expect(exact(2 ** 60)).toMatch(/^≈ /);
  expect([plural(1, 'frame'), plural(2110, 'frame')]).toEqual(['1 frame', '2\u202f110 frames']);
});

test('times follow the grammar of the addresses', () => {
  const cases: [string, number | null][] = [
    ['now', NOW], ['now-15m', NOW - 900e3], ['now-7d', NOW - 604800e3], ['1700000000', 1700000000e3],
    ['1700000000123', 1700000000123], ['1700000000123456', 1700000000123], ['1700000000123456789', 1700000000123],
    ['', null], ['yesterday', null], ['now-', null], ['now+1h', null], ['-5', null], ['99999999999999', null],
  ];
  for (const [text, ms] of cases) expect(readTime(text, NOW), text).toBe(ms);
  expect(readRange('now', 'now-1h', NOW)).toBeNull();
  expect(fromField(toField(NOW))).toBe(NOW);
  expect(fromField('')).toBeNull();
});

test('a range reads as people say it', () => {
  const text = (from: string, until: string) => rangeText(from, until, readRange(from, until, NOW)!);
  expect(text('now-1h', 'now')).toBe('Last hour');
  expect(text('now-2h', 'now')).toBe('Last 2 hours');
  expect(text(String(NOW - 3600e3), String(NOW))).toMatch(/^2\d Nov 2026, \d\d:30:00 – .*\d\d:30:00$/);
});

test('queries survive reading and writing', () => {
  const text = `${CPU}{service_name="checkout", region!="eu", path=~"/a\\"b\\\\c\\n"}`;
  const q = parseQuery(text)!;
  expect(q.matchers.map((m) => m.value)).toEqual(['checkout', 'eu', '/a"b\\c\n']);
  expect(queryText(q)).toBe(text);
  expect(serviceOf(q)).toBe('checkout');
  expect(selector(withService(q, 'pay').matchers)).toMatch(/^\{service_name="pay", region!="eu"/);
  expect(parseQuery("{a='x', `b.c`!~`\\d`,}")?.matchers).toEqual([
    { label: 'a', op: '=', value: 'x' }, { label: 'b.c', op: '!~', value: '\\d' },
  ]);
  expect(parseQuery('{"k8s.pod"="x"}')).toEqual({ type: '', matchers: [{ label: 'k8s.pod', op: '=', value: 'x' }] });
  for (const bad of ['{a}', '{a=b}', '{a="b"', '{a="b" c="d"}', '{a="b"} x', '{="b"}', '{a="\\q"}']) {
    expect(parseQuery(bad), bad).toBeNull();
  }
});

test('what an address leaves open is chosen from what there is', () => {
  const HEAP = 'memory:inuse_space:bytes:space:bytes', both = new Map([['a', [HEAP, CPU]], ['flametree', [CPU]]]);
  const service = (s: string) => [{ label: 'service_name', op: '=', value: s }];
  expect(choose('', both)).toEqual({ kind: 'query', query: { type: CPU, matchers: service('a') } });
  expect(choose('', new Map([['flametree', [CPU]], ['zebra', [HEAP]]]))).toMatchObject({ query: { matchers: service('zebra') } });
  expect(choose('', new Map([['flametree', [CPU]]]))).toMatchObject({ query: { matchers: service('flametree') } });
  expect(choose('{service_name="flametree"}', both)).toMatchObject({ query: { type: CPU, matchers: service('flametree') } });
  expect(choose(`${HEAP}{}`, null)).toEqual({ kind: 'query', query: { type: HEAP, matchers: [] } });
  expect([choose('', null), choose('', new Map()), choose('{', both)].map((c) => c.kind)).toEqual(['waiting', 'nothing', 'unreadable']);
});

test('profile types have names, units and a favourite', () => {
  expect(typeName(CPU)).toBe('CPU time');
  expect(typeName('exotic:thing:widgets::')).toBe('exotic · thing');
  expect(unitOf('wall:wall:microseconds:wall:microseconds')).toMatchObject({ unit: 'nanoseconds', factor: 1000 });
  expect(unitOf('x:y:widgets::')).toEqual({ unit: 'count', factor: 1, stored: 'widgets' });
  expect([isGauge('memory:inuse_space:bytes::'), isGauge('memory:alloc_space:bytes::')]).toEqual([true, false]);
  expect(preferredType(['mutex:delay:nanoseconds::', CPU])).toBe(CPU);
  const twice = ['wall:sample:count:wall:a', 'wall:samples:count:wall:b'];
  expect(new Set(nameTypes(twice).map((t) => t.text)).size).toBe(2);
});

test('the request is the protobuf that the contract asks for', () => {
  const bytes = writeMergeRequest({ type: 'a:b', selector: '{}', start: 300, end: 2 ** 41, maxNodes: 16384 });
  expect(Buffer.from(bytes).toString('hex')).toBe('0a03613a62' + '12027b7d' + '18ac02' + '20808080808040' + '28808001');
});

// The example of the wire contract: a;b;e=1, a;c=2, a;c;d=1.
const STACKS: [string, number][] = [['a;b;e', 1], ['a;c', 2], ['a;c;d', 1]];
const wire = (stacks: [string, number][]) => readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(stacks))));
const names = (f: Flame, frames: number[]) => frames.map((i) => nameOf(f, i));

test('an answer becomes frames with parents, children and places', () => {
  const graph = wire(STACKS), f = buildFlame(graph);
  expect(graph.levels.map((l) => [...l])).toEqual(encodeLevels(STACKS).levels);
  expect(names(f, [...f.name.keys()])).toEqual(['total', 'a', 'b', 'c', 'e', 'd']);
  expect([...f.parent]).toEqual([-1, 0, 1, 1, 2, 3]);
  expect([...f.x]).toEqual([0, 0, 0, 0.25, 0, 0.75]);
  expect([...f.w]).toEqual([1, 1, 0.25, 0.75, 0.25, 0.25]);
  expect(names(f, [heaviestChild(f, 1), ...pathTo(f, 5)])).toEqual(['c', 'a', 'c', 'd']);
  expect([...f.name.keys()].map((i) => levelOf(f, i))).toEqual([0, 1, 2, 2, 3, 3]);
});

test('every frame of a big graph lies within its parent and is found by its key', () => {
  const f = buildFlame(wire(synthetic(2000)));
  expect(f.count).toBeGreaterThan(3000);
  const outside = (i: number) => {
    const p = f.parent[i];
    return f.x[i] < f.x[p] - 1e-12 || f.x[i] + f.w[i] > f.x[p] + f.w[p] + 1e-12;
  };
  expect([...f.name.keys()].slice(1).filter(outside)).toEqual([]);
  for (const i of [0, 1, 17, f.count - 1]) expect(pathTo(f, findFrame(f, frameKey(f, i)))).toEqual(i ? pathTo(f, i) : []);
  expect([findFrame(f, 'zzzzzzz'), findFrame(f, '<script>'), findFrame(f, '')]).toEqual([-1, -1, -1]);
});

test('names that are not ASCII and values beyond 32 bits survive', () => {
  const f = buildFlame(wire([['größe;日本語', 2 ** 45], ['x'.repeat(200), 3]]));
  expect(f.names).toEqual(['total', 'größe', 'x'.repeat(200), '日本語'].sort((a, b) => f.names.indexOf(a) - f.names.indexOf(b)));
  expect(f.total[0]).toBe(2 ** 45 + 3);
});

test('no bytes hang or crash the reader: they are read or refused', () => {
  const whole = new Uint8Array(encodeResponse(encodeLevels(STACKS)));
  for (let n = 1; n < whole.length; n++) expect(() => buildFlame(readGraphResponse(whole.subarray(0, n))), `${n}`).toThrow(/flame graph/);
  const surprises: string[] = [];
  let seed = 1;
  for (let round = 0; round < 3000; round++) {
    const broken = whole.slice();
    for (let k = 0; k < 3; k++) broken[(seed = (seed * 48271) % 0x7fffffff) % broken.length] = seed & 255;
    try {
      buildFlame(readGraphResponse(broken));
    } catch (e) {
      if (!/flame graph/.test(String(e))) surprises.push(String(e));
    }
  }
  expect(surprises).toEqual([]);
  expect(buildFlame(readGraphResponse(new Uint8Array(0))).total[0]).toBe(0);
});

test('a point finds its frame', () => {
  const f = buildFlame(wire(STACKS)), all = { lo: 0, hi: 1 };
  expect(firstBeyond(f, f.levelStart[2], f.levelStart[3], 0.25)).toBe(3);
  const at = (px: number, level: number) => pick(f, all, 400, px, level);
  expect([at(90, 2), at(110, 2), at(50, 3), at(150, 3), at(350, 3), at(5, 4), at(5, -1)]).toEqual([2, 3, 4, -1, 5, -1, -1]);
});

test('names shorten, and tell where they are from', () => {
  expect(shorter('github.com/acme/app/pkg/store.(*Head).Flush')).toEqual(['store.(*Head).Flush', '(*Head).Flush', 'Flush']);
  expect(shorter('[libuv.so.1]')).toEqual(['[libuv.so.1]']);
  expect(shorter('main.main.func1')).toEqual(['main.main.func1', 'main.func1']);
  expect(shorter('alloc::vec::Vec::push')).toEqual(['alloc::vec::Vec::push', 'Vec::push', 'push']);
  expect([shorter(''), shorter('a/'), shorter('/')]).toEqual([[''], ['a/'], ['/']]);
  const cases: Record<string, [string, string]> = {
    'runtime.mallocgc': ['runtime', 'runtime'], 'net/http.(*conn).serve': ['library', 'net/http'],
    'github.com/a/b/c/d.F': ['code', 'github.com/a/b'], 'java.util.HashMap.get': ['library', 'java.util'],
    '<serde::de::X as Y>::z': ['code', 'serde'], 'core::fmt::write': ['library', 'core'],
    'main.work': ['code', 'main'], plain: ['code', ''], other: ['rest', ''],
    '[librocksdb.so.7.8]': ['library', 'librocksdb'],
    '[no frame pointer]': ['library', 'no frame pointer'],
  };
  for (const [name, [kind, pkg]] of Object.entries(cases)) expect(origin(name), name).toEqual({ kind, package: pkg });
});

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

test('text on every colour of the graph has the contrast of WCAG AA', () => {
  for (const [theme, p] of Object.entries(PALETTES)) {
    for (const c of [...p.code, ...p.library, ...p.runtime]) expect(contrast(c, p.text), `${theme} ${c}`).toBeGreaterThan(4.5);
    expect(contrast(p.dust, p.dustText), theme).toBeGreaterThan(4.5);
  }
});

test('the heaviest packages have colours of their own and the legend names them', () => {
  const f = buildFlame(wire([...synthetic(900), ['net/http.(*conn).serve;other', 9e8]])), paint = makePaint(f, 'dark');
  const colors = paint.legend.map((l) => l.color);
  expect(new Set(colors).size).toBe(colors.length);
  expect(paint.legend.length).toBe(5);
  expect(paint.rest).toBe(paint.ofName[f.names.indexOf('other')]);
});
