// Values over time, without a browser: buckets that are still filling, the rhythm of agents, trends, units and small numbers.
import { expect, test } from '@playwright/test';
import { change, cores, digits, perTime, value } from '../src/format';
import { rateOf, unitOf } from '../src/ptype';
import { bucketsOf, GONE, lineOf, mean, NEW, rhythmOf, timesOf, trend, type Buckets, type Point } from '../src/series';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', NOW = Date.UTC(2026, 10, 21, 9, 30);
const cpu = rateOf(CPU), space = rateOf('memory:alloc_space:bytes:space:bytes'), heap = rateOf('memory:inuse_space:bytes:space:bytes');
const MIN = 60e3, HOUR = 3600e3, DAY = 86400e3;
const at = (...v: [number, number][]): Point[] => v.map(([t, sum]) => ({ t: t * 1e3, v: sum }));
const ten = (now: number): Buckets => ({ first: 10e3, step: 10e3, count: 4, now });
const known = (values: (number | null)[]) => values.filter((v) => v !== null);

/** One core in use, pushed at these times: what the server answers. Each push holds the time since the one before. */
function pushed(times: number[], b: Buckets, lengthMs = times[1] - times[0]): Point[] {
  const sums = new Map<number, number>();
  for (const t of times) {
    const edge = Math.ceil(t / b.step) * b.step;
    if (t <= b.now && edge >= b.first) sums.set(edge, (sums.get(edge) ?? 0) + lengthMs * 1e6);
  }
  return [...sums].map(([t, v]) => ({ t, v }));
}
const every = (ms: number, from: number, to: number, jitter = 0): number[] =>
  Array.from({ length: Math.floor((to - from) / ms) }, (_, i) => from + i * ms + (jitter ? ((i * 7919) % 5 - 2) * jitter : 0));

test('values are rates: cores, bytes a second; gauges are means, and gaps of them are unknown', () => {
  const old = ten(1e6);
  expect(lineOf(at([10, 5e9], [30, 20e9]), old, cpu, false).values).toEqual([0.5, 0, 2, 0]);
  expect(lineOf(at([20, 4096]), old, space, false).values).toEqual([0, 409.6, 0, 0]);
  expect(lineOf(at([20, 4096]), old, heap, true).values).toEqual([null, 4096, null, null]);
  expect(lineOf(at([10, 5e9]), ten(45e3), cpu, false).values).toEqual([0.5, null, null, null]); // the next may be on its way
});

test('the bucket that is not over is the rate over the time that it has, and marked', () => {
  for (const [minutes, sum] of [[20, 1200e9], [119, 7140e9]]) {
    const now = Date.UTC(2026, 10, 21, 8) + minutes * MIN, b = bucketsOf({ start: now - 30 * DAY, end: now }, now);
    expect(b.step).toBe(2 * HOUR);
    const last = b.first + (b.count - 1) * b.step, line = lineOf([{ t: last, v: sum }], b, cpu, false);
    expect(line.filling).toBe(b.count - 1);
    expect(line.values[b.count - 1]).toBeCloseTo(1);
    expect(mean(line.values, b)).toBeCloseTo(sum / 1e9 / ((now - b.first + b.step) / 1e3)); // by time: not a whole bucket of it
    expect(timesOf(b)[b.count - 1] * 1e3).toBe(now - (minutes * MIN) / 2);
  }
  const now = Date.UTC(2026, 10, 21, 8) + 10e3, b = bucketsOf({ start: now - 30 * DAY, end: now }, now), last = b.first + (b.count - 1) * b.step;
  const before = { t: last - b.step, v: 7200e9 };
  expect(lineOf([before, { t: last, v: 30e9 }], b, cpu, false).values.slice(-2)).toEqual([1, null]); // 30 s that came at once are not 3 cores
  expect(lineOf([{ t: last, v: 30e9 }], b, cpu, false).values[b.count - 1]).toBeCloseTo(0.5); // and all that there is, is shown
  expect(lineOf([before], b, cpu, false)).toMatchObject({ filling: b.count });
  expect(lineOf([before, { t: last, v: 100 }], b, heap, true).filling).toBe(b.count - 1);
  const past = bucketsOf({ start: now - 31 * DAY, end: now - DAY }, now);
  expect(lineOf([{ t: past.first, v: 1e9 }], past, cpu, false).filling).toBe(past.count);
});

test('a service that stopped is 0, also in the bucket that is not over', () => {
  const now = Date.UTC(2026, 10, 21, 8) + 20 * MIN, b = bucketsOf({ start: now - 30 * DAY, end: now }, now);
  expect(lineOf([{ t: b.first, v: 7200e9 }], b, cpu, false)).toMatchObject({ filling: b.count - 1 });
  expect(lineOf([{ t: b.first, v: 7200e9 }], b, cpu, false).values[b.count - 1]).toBe(0);
});

test('steady pushes draw a flat line, whatever their interval', () => {
  for (const range of [HOUR, 6 * HOUR]) {
    const b = bucketsOf({ start: NOW - range, end: NOW }, NOW + HOUR);
    for (const seconds of [10, 15, 20, 30, 40, 60, 90, 120, 300, 600, 900]) {
      if (range / seconds / 1e3 < 5) continue;
      for (const phase of [1, 7e3, 29_999]) {
        const times = every(seconds * 1e3, NOW - range - HOUR + phase, NOW + HOUR), { values } = lineOf(pushed(times, b), b, cpu, false);
        expect(known(values).length, `${seconds} s in ${range}`).toBeGreaterThan(b.count * 0.6);
        expect(Math.max(...known(values).map((v) => Math.abs(v! - 1))), `${seconds} s in ${range} from ${phase}`).toBeLessThan(0.02);
      }
    }
  }
});

test('five minute pushes of a live hour: flat up to the last, a second late or not, of one instance or of several', () => {
  for (let now = NOW; now < NOW + 5 * MIN; now += 17e3) {
    const b = bucketsOf({ start: now - HOUR, end: now }, now), { by, at: cut } = rhythmOf(pushed(every(5 * MIN, NOW - 2 * HOUR, NOW + HOUR), b), b);
    expect(by * b.step).toBe(5 * MIN);
    for (const jitter of [0, 2e3]) {
      const { values, filling } = lineOf(pushed(every(5 * MIN, NOW - 2 * HOUR + 1, NOW + HOUR, jitter), b, 5 * MIN), b, cpu, false);
      expect(Math.max(...known(values).map((v) => Math.abs(v! - 1))), `${(now - NOW) / 1e3} s, cut ${cut}`).toBeLessThan(0.05);
      expect(known(values).length).toBeGreaterThan(b.count * 0.75);
      if (filling < b.count) expect(values[filling]).not.toBeNull();
    }
    const several = [0, 40e3, 90e3, 210e3].flatMap((phase) => every(5 * MIN, NOW - 2 * HOUR + phase + 1, NOW + HOUR));
    const all = lineOf(pushed(several, b, 5 * MIN), b, cpu, false);
    expect(Math.max(...known(all.values).slice(0, -10).map((v) => Math.abs(v! - 4)))).toBeLessThan(0.2);
  }
});

test('a pause stays a pause, a burst stays short, and irregular pushes are smoothed', () => {
  const b = bucketsOf({ start: NOW - HOUR, end: NOW }, NOW + HOUR);
  const off = [...every(5 * MIN, NOW - HOUR + 1e3, NOW - 40 * MIN), ...every(5 * MIN, NOW - 20 * MIN + 1e3, NOW)];
  const paused = lineOf(pushed(off, b, 5 * MIN), b, cpu, false).values;
  expect(paused.filter((v) => v === 0).length * b.step).toBeGreaterThanOrEqual(10 * MIN);
  expect(Math.max(...known(paused) as number[])).toBeLessThanOrEqual(1.01);
  const burst = lineOf(pushed(every(15e3, NOW - 30 * MIN, NOW - 28 * MIN), b), b, cpu, false).values;
  expect(burst.filter((v) => v! > 0).length * b.step).toBeLessThanOrEqual(2.5 * MIN);
  const job = [1, 2, 3, 4, 5].flatMap((n) => every(15e3, NOW - n * 11 * MIN, NOW - n * 11 * MIN + 2 * MIN));
  expect(rhythmOf(pushed(job.sort(), b), b).by).toBe(1); // two minutes of every eleven
  expect([rhythmOf([], b).by, rhythmOf(pushed(every(15e3, NOW - 30e3, NOW), b), b).by]).toEqual([1, 1]);
  const irregular = Array.from({ length: 40 }, (_, i) => NOW - HOUR + i * 90e3 + ((i * i * 7919) % 80) * 1e3);
  expect(rhythmOf(pushed(irregular, b), b).by).toBeGreaterThan(2);
});

test('a trend compares the halves; what began or ended is said to be new or gone', () => {
  const b = (values: unknown[]): Buckets => ({ first: 1000e3, step: 1000e3, count: values.length, now: 1e9 });
  const of = (values: (number | null)[], gauge = false) => trend(values, b(values), gauge);
  expect(of([1, 1, 1, 2, 2, 2])).toBeCloseTo(1);
  expect(of([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])).toBe(NEW);
  expect(of([1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0])).toBe(GONE);
  expect(of([null, null, null, 1, 1, 1, 1, 1, 1, null])).toBeCloseTo(0); // unknown is not nothing
  expect(of([null, null, null, null, 5, 5, 5, 5, 5, 5], true)).toBe(NEW); // but a gauge has none where nothing ran
  expect(of([5, 5, 5, 5, 5, 5, null, null, null, null], true)).toBe(GONE);
  expect(of([0, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0])).toBeCloseTo(0); // it runs now and then
  expect([of([]), of([0, 0, 0]), of([1, 1])]).toEqual([null, null, null]);
  const rising = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]; // the first bucket is part of the first half
  expect(of(rising)).toBeCloseTo(1 / (5 / 6) - 1);
  expect([null, NEW, GONE, -0.22, 0.5].map((v) => change(v, true))).toEqual(['–', 'new', 'gone', '−22.0 %', '+50.0 %']);
});

test('units are read as profilers write them', () => {
  const ns = (...spellings: string[]) => spellings.map((u) => unitOf(`a:b:${u}::`)).map(({ unit, factor }) => (unit === 'nanoseconds' ? factor : unit));
  expect(ns('nanoseconds', 'ns', 'nsec', 'Nanosecond')).toEqual([1, 1, 1, 1]);
  expect(ns('microseconds', 'us', 'usec', '\u00b5s', '\u03bcs', 'microsecond')).toEqual(new Array(6).fill(1e3));
  expect(ns('milliseconds', 'ms', 'msec', 'millisecond')).toEqual(new Array(4).fill(1e6));
  expect(ns('seconds', 's', 'sec', 'secs', 'second')).toEqual(new Array(5).fill(1e9));
  expect(ns('min', 'minutes', 'h', 'hrs', 'hours', 'd', 'days')).toEqual([60e9, 60e9, 3600e9, 3600e9, 3600e9, 86400e9, 86400e9]);
  const bytes = ['bytes', 'byte', 'B', 'kb', 'KiB', 'kilobytes', 'MB', 'megabyte', 'gb', 'TiB', 'pb'].map((u) => unitOf(`a:b:${u}::`));
  expect(bytes.map((u) => u.unit)).toEqual(new Array(11).fill('bytes'));
  expect(bytes.map((u) => Math.log2(u.factor))).toEqual([0, 0, 0, 10, 10, 10, 20, 20, 30, 40, 50]);
  for (const other of ['widgets', 'm', 'bits', 'samples', 'spins']) expect(unitOf(`a:b:${other}::`)).toEqual({ unit: 'count', factor: 1, stored: other });
  for (const plain of ['count', '', 'counts', 'none']) expect(unitOf(`a:b:${plain}::`).stored).toBe('');
});

test('small numbers have prefixes or a longer time, never an exponent', () => {
  expect([5.6e-6, 9.4e-7, 0.0123, 0.5, 1, 12.34, 0].map((v) => cpu.write(v)))
    .toEqual(['5.60 µcores', '940 ncores', '12.3 mcores', '0.50 cores', '1.00 core', '12.3 cores', '0 cores']);
  const delay = rateOf('mutex:delay:nanoseconds::');
  expect([9.4e-7, 0.0021, 0.25, 3].map((v) => delay.write(v))).toEqual(['940 ns/s', '2.10 ms/s', '0.25 s/s', '3.00 s/s']);
  const objects = rateOf('memory:alloc_objects:count::');
  expect([12_200, 3, 0.2, 0.0056, 0.0000116, 1e-9].map((v) => objects.write(v))).toEqual(['12.2 k/s', '3/s', '12/min', '20.2/h', '1.00/d', '0.000086/d']);
  expect([space.write(2048), space.write(0.1), heap.write(2048), space.write(0)]).toEqual(['2.00 KiB/s', '6 B/min', '2.00 KiB', '0/s']);
  expect([0.02, 0.04, 0.12].map((v) => cores(v, 0.04))).toEqual(['20.0 mcores', '40.0 mcores', '120 mcores']); // marks of one axis
  expect([value(500, 'bytes', 2048), perTime(0.02, 'count', 0.5)]).toEqual(['0.49 KiB', '1.20/min']);
  expect([9.4e-7, 1e-300].map(digits)).toEqual(['<0.000001', '<0.000001']);
});
