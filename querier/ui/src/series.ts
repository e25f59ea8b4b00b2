// Values over time: which buckets to ask for, and what they mean. The server answers with points where something is;
// point t sums what lies in (t - step, t].
import type { Rate } from './ptype';
import type { Range } from './time';

const MOST_POINTS = 400;
/** Agents send every 10 or 15 seconds; finer buckets would show their rhythm. A short range has at least 20 all the same. */
const USUAL_STEP_MS = 15e3, FEW_POINTS = 20;
const LADDER_MS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
].map((s) => s * 1e3);

/** Buckets of a round width that cover a range; they are aligned, so that a later look sees the same ones. */
export interface Buckets { first: number; step: number; count: number } // right edge of the first, in ms

export function bucketsOf({ start, end }: Range): Buckets {
  const wanted = Math.max((end - start) / (MOST_POINTS - 2), Math.min(USUAL_STEP_MS, (end - start) / FEW_POINTS));
  const longest = LADDER_MS[LADDER_MS.length - 1];
  const step = LADDER_MS.find((s) => s >= wanted) ?? Math.ceil(wanted / longest) * longest;
  const first = Math.floor(start / step) * step + step;
  return { first, step, count: Math.max(1, Math.ceil((end - first) / step) + 1) };
}

export interface Point { t: number; v: number } // right edge in ms, sum

/** Gaps longer than so many usual ones are not the rhythm of an agent: nothing ran. */
const PAUSE = 3, LEAST_BUCKETS = 20;
/** So long after its time a profile may come. */
const LATE_MS = 60e3;

/**
 * How many buckets to take as one so that lines do not show the rhythm in which profiles come: 1 if nearly every bucket
 * has one. An agent that sends every minute would else draw a comb into buckets of 15 seconds.
 */
export function rhythmOf(points: Point[], b: Buckets): number {
  const filled = [...new Set(points.map((p) => Math.round((p.t - b.first) / b.step)))].sort((x, y) => x - y);
  const gaps = filled.slice(1).map((at, i) => at - filled[i]), usual = [...gaps].sort((x, y) => x - y)[gaps.length >> 1];
  if (usual === undefined || gaps.length < 3) return 1;
  const steady = gaps.filter((g) => g <= usual * PAUSE), mean = steady.reduce((sum, g) => sum + g, 0) / steady.length;
  if (mean <= 1.05) return 1;
  return Math.max(1, Math.min(Math.max(2, Math.round(mean * 2)), Math.floor(b.count / LEAST_BUCKETS)));
}

/** The same range in buckets so many times as wide; the last one may reach beyond it. */
export const coarser = (b: Buckets, by: number): Buckets =>
  ({ first: b.first + (by - 1) * b.step, step: b.step * by, count: Math.ceil(b.count / by) });

/**
 * One value per bucket of `by` asked ones. Where nothing is a rate is 0 and a gauge unknown. A bucket that is not over
 * at `nowMs` is unknown too, and so are the last ones if they are empty: profiles come when their time has passed.
 */
export function lineOf(points: Point[], asked: Buckets, by: number, rate: Rate, gauge: boolean, nowMs: number): (number | null)[] {
  const b = coarser(asked, by), sums = new Array<number>(b.count).fill(0), filled = new Array<number>(b.count).fill(0);
  for (const { t, v } of points) {
    const i = Math.floor(Math.round((t - asked.first) / asked.step) / by);
    if (i < 0 || i >= b.count) continue;
    sums[i] += v * rate.factor;
    filled[i]++;
  }
  const end = asked.first + (asked.count - 1) * asked.step;
  const values = sums.map((sum, i) => {
    if (gauge) return filled[i] > 0 ? sum / filled[i] : null;
    const right = Math.min(end, b.first + i * b.step), length = right - (b.first + (i - 1) * b.step);
    return right > nowMs ? null : sum / (length / 1e3);
  });
  for (let i = b.count - 1; i >= 0 && filled[i] === 0 && b.first + i * b.step > nowMs - LATE_MS; i--) values[i] = null;
  return values;
}

/** The middles of the buckets, in seconds. */
export const timesOf = (b: Buckets): number[] =>
  Array.from({ length: b.count }, (_, i) => (b.first + (i - 0.5) * b.step) / 1e3);

export function mean(values: (number | null)[]): number {
  let sum = 0, n = 0;
  for (const v of values) {
    if (v === null) continue;
    sum += v;
    n++;
  }
  return n > 0 ? sum / n : 0;
}

/** Change from the first half to the second, as a part of the first, since there is anything; null if that is too short. */
export function trend(values: (number | null)[]): number | null {
  const known = values.slice(Math.max(0, values.findIndex((v) => v !== null && v > 0))).filter((v) => v !== null);
  if (known.length < LEAST_BUCKETS / 4) return null;
  const half = known.length >> 1, before = mean(known.slice(0, half)), after = mean(known.slice(half));
  return before > 0 ? after / before - 1 : null;
}
